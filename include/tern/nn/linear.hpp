#pragma once

#include "tern/nn/init.hpp"
#include "tern/nn/module.hpp"
#include "tern/operators/dot.hpp"

namespace tern::nn {

struct LinearOptions {
  bool bias = true;
  Activation activation = Activation::none;  ///< computed in the same kernel
  DType dtype = DType::float32;
  Start start = Start::torch;
};

/// activation(x weight^T + bias): x [..., in], weight [out, in], bias [out].
class Linear : public Module {
 public:
  using Operator = Linear;
  Linear(std::int64_t in, std::int64_t out, const LinearOptions& options = {},
         Generator& generator = default_generator());

  Tensor forward(const Tensor& x) const override { return operators::linear(x, weight_, bias_, activation_); }
  AsOperator as_operator(bool training) const;
  std::string describe() const override;

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }

 private:
  Activation activation_;
  Parameter weight_, bias_;
};

}  // namespace tern::nn
