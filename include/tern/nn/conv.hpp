#pragma once

#include "tern/nn/init.hpp"
#include "tern/nn/module.hpp"
#include "tern/operators/conv.hpp"

namespace tern::nn {

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  std::optional<Pair> end_padding = {};  ///< below and to the right; equal to `padding` if absent
  std::int64_t groups = 1;
  bool bias = true;
  Activation activation = Activation::none;  ///< computed in the same kernel
  DType dtype = DType::float32;
  Start start = Start::torch;
  bool same_padding = false;  ///< see operators::Conv2dOptions
};

/// operators::conv2d with weight [out, in / groups, KH, KW] and bias [out].
class Conv2d : public Module {
 public:
  using Operator = Conv2d;
  Conv2d(std::int64_t in, std::int64_t out, Pair kernel, const Conv2dOptions& options = {},
         Generator& generator = default_generator());

  Tensor forward(const Tensor& x) const override { return operators::conv2d(x, weight_, bias_, options_); }
  AsOperator as_operator(bool training) const;
  std::string describe() const override;

  /// The arguments with which this module calls operators::conv2d on x.
  operators::Conv2dCall call(const Tensor& x) const { return {x, weight_, bias_, options_}; }

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }

 private:
  operators::Conv2dOptions options_;
  Parameter weight_, bias_;
};

struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
  DType dtype = DType::float32;
  Start start = Start::torch;
  bool same_padding = false;  ///< see operators::Conv2dOptions
};

/// operators::conv1d with weight [out, in / groups, K] and bias [out].
class Conv1d : public Module {
 public:
  using Operator = Conv1d;
  Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel, const Conv1dOptions& options = {},
         Generator& generator = default_generator());
  Tensor forward(const Tensor& x) const override { return operators::conv1d(x, weight_, bias_, options_); }
  AsOperator as_operator(bool training) const;
  std::string describe() const override;

 private:
  operators::Conv1dOptions options_;
  Parameter weight_, bias_;
};

struct ConvTranspose2dOptions {
  Pair stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::float32;
};

/// operators::conv_transpose2d with weight [in, out / groups, KH, KW] and bias [out]. Initial values are torch's:
/// uniform in +-1 / sqrt(out / groups KH KW).
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(std::int64_t in, std::int64_t out, Pair kernel, const ConvTranspose2dOptions& options = {},
                  Generator& generator = default_generator());
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override;

 private:
  operators::ConvTranspose2dOptions options_;
  Parameter weight_, bias_;
};

/// A convolution and its input.
struct Conv2dInput {
  template <std::derived_from<Conv2d> Layer>
  Conv2dInput(const Layer& layer, Tensor input)
      : conv(layer), x(std::move(input)), plain(std::same_as<typename Layer::Operator, Layer>) {}
  const Conv2d& conv;
  Tensor x;
  bool plain;  ///< whether its forward is Conv2d's own
};
/// The outputs of several convolutions, concatenated along the channels by operators::conv2d_cat. If one of them is of
/// a class derived from Conv2d, `forward` runs for each instead.
Tensor cat(const std::vector<Conv2dInput>& inputs);

}  // namespace tern::nn
