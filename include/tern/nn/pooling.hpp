#pragma once
// Pooling as modules; see the operators of the same names.

#include "tern/nn/module.hpp"
#include "tern/operators/pooling.hpp"

namespace tern::nn {

using operators::AvgPool2dOptions;
using operators::MaxPool2dOptions;

class MaxPool2d : public Module {
 public:
  using Operator = MaxPool2d;
  explicit MaxPool2d(Pair kernel, const MaxPool2dOptions& options = {}) : kernel_(kernel), options_(options) {}
  Tensor forward(const Tensor& x) const override { return operators::max_pool2d(x, kernel_, options_); }
  std::string describe() const override;
  AsOperator as_operator(bool training) const;

 private:
  Pair kernel_;
  MaxPool2dOptions options_;
};

class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Pair kernel, const AvgPool2dOptions& options = {}) : kernel_(kernel), options_(options) {}
  Tensor forward(const Tensor& x) const override { return operators::avg_pool2d(x, kernel_, options_); }
  std::string describe() const override;

 private:
  Pair kernel_;
  AvgPool2dOptions options_;
};

class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(Pair output) : output_(output) {}
  Tensor forward(const Tensor& x) const override { return operators::adaptive_avg_pool2d(x, output_); }
  std::string describe() const override { return message("AdaptiveAvgPool2d(", output_.h, 'x', output_.w, ")"); }

 private:
  Pair output_;
};

}  // namespace tern::nn
