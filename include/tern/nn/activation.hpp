#pragma once
// Activations as modules; see the operators of the same names.

#include "tern/nn/module.hpp"
#include "tern/operators/activation.hpp"

namespace tern::nn {

class Relu : public Module {
 public:
  using Operator = Relu;
  Tensor forward(const Tensor& x) const override { return operators::relu(x); }
  std::string describe() const override { return "Relu()"; }
  AsOperator as_operator(bool /*training*/) const { return {{&operators::op("relu")}}; }
};

class LeakyRelu : public Module {
 public:
  explicit LeakyRelu(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor forward(const Tensor& x) const override { return operators::leaky_relu(x, negative_slope_); }
  std::string describe() const override { return message("LeakyRelu(", negative_slope_, ")"); }

 private:
  double negative_slope_;
};

class Sigmoid : public Module {
 public:
  using Operator = Sigmoid;
  Tensor forward(const Tensor& x) const override { return operators::sigmoid(x); }
  std::string describe() const override { return "Sigmoid()"; }
  AsOperator as_operator(bool /*training*/) const { return {{&operators::op("sigmoid")}}; }
};

class Tanh : public Module {
 public:
  using Operator = Tanh;
  Tensor forward(const Tensor& x) const override { return operators::tanh(x); }
  std::string describe() const override { return "Tanh()"; }
  AsOperator as_operator(bool /*training*/) const { return {{&operators::op("tanh")}}; }
};

class Softplus : public Module {
 public:
  Tensor forward(const Tensor& x) const override { return operators::softplus(x); }
  std::string describe() const override { return "Softplus()"; }
};

class Gelu : public Module {
 public:
  using Operator = Gelu;
  Tensor forward(const Tensor& x) const override { return operators::gelu(x); }
  std::string describe() const override { return "Gelu()"; }
  AsOperator as_operator(bool /*training*/) const { return {{&operators::op("gelu")}}; }
};

class Relu6 : public Module {
 public:
  using Operator = Relu6;
  Tensor forward(const Tensor& x) const override { return operators::relu6(x); }
  std::string describe() const override { return "Relu6()"; }
  AsOperator as_operator(bool /*training*/) const { return {{&operators::op("relu6")}}; }
};

class Hardswish : public Module {
 public:
  using Operator = Hardswish;
  Tensor forward(const Tensor& x) const override { return operators::hardswish(x); }
  std::string describe() const override { return "Hardswish()"; }
  AsOperator as_operator(bool /*training*/) const { return {{&operators::op("hardswish")}}; }
};

class Elu : public Module {
 public:
  explicit Elu(double alpha = 1) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) const override { return operators::elu(x, alpha_); }
  std::string describe() const override { return message("Elu(", alpha_, ")"); }

 private:
  double alpha_;
};

class Silu : public Module {
 public:
  using Operator = Silu;
  Tensor forward(const Tensor& x) const override { return operators::silu(x); }
  std::string describe() const override { return "Silu()"; }
  AsOperator as_operator(bool /*training*/) const { return {{&operators::op("silu")}}; }
};

/// operators::prelu with a weight [1] or [channels], initialised to `start`.
class Prelu : public Module {
 public:
  explicit Prelu(std::int64_t channels = 1, double start = 0.25, DType dtype = DType::float32)
      : weight_(parameter("weight", full({channels}, start, dtype))) {}
  Tensor forward(const Tensor& x) const override { return operators::prelu(x, weight_); }
  std::string describe() const override { return message("Prelu(", weight_->numel(), ")"); }

 private:
  Parameter weight_;
};

class Softmax : public Module {
 public:
  explicit Softmax(std::int64_t dim = -1) : dim_(dim) {}
  Tensor forward(const Tensor& x) const override { return operators::softmax(x, dim_); }
  std::string describe() const override { return message("Softmax(dim ", dim_, ")"); }

 private:
  std::int64_t dim_;
};

}  // namespace tern::nn
