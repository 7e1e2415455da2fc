#pragma once

#include <optional>

#include "tern/core/member_list.hpp"
#include "tern/operators/activation.hpp"

namespace tern::operators {

struct LocalResponseNormOptions {
  std::int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1;

  using Members = MemberList<&LocalResponseNormOptions::size, &LocalResponseNormOptions::alpha,
                             &LocalResponseNormOptions::beta, &LocalResponseNormOptions::k>;
};

/// x / (k + alpha / size * sum over `size` neighbouring channels of x^2)^beta; x [N, C, L, ...].
Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options = {});

struct BatchNormOptions {
  bool training = true;
  double momentum = 0.1;  ///< running = (1 - momentum) running + momentum batch
  double epsilon = 1e-5;
  Activation activation = Activation::none;

  using Members = MemberList<&BatchNormOptions::training, &BatchNormOptions::momentum, &BatchNormOptions::epsilon,
                             &BatchNormOptions::activation>;
};

/// (x - mean) / sqrt(var + epsilon) * weight + bias per channel of x [N, C, ...], plus `added` (x's shape and dtype, or
/// undefined), then the activation. Training uses the batch's statistics, over more than one value, and updates
/// running_mean and running_var in place unless undefined; evaluation uses the running ones, which get no gradient.
/// weight and bias are [C] or undefined, of x's dtype or, beside 16 bits, float32. Adding and activation run in the
/// same kernel if the activation is none, relu or relu6.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor running_mean, Tensor running_var,
                  const BatchNormOptions& options = {}, const Tensor& added = {});

// In the next four, epsilon is added to the biased variance. weight and bias may be undefined; beside 16 bits they may
// be float32.
/// Normalises over the last dimensions, whose sizes are `normalized_shape`: the shape of weight and bias.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double epsilon = 1e-5);
/// x / sqrt(mean(x^2) + epsilon) * weight over the last dimensions. The default epsilon is torch's: 2^-52 for float64,
/// 2^-23 for other dtypes, 16-bit ones too.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> epsilon = {});
/// Normalises each of `groups` groups of neighbouring channels of each example in x [N, C, ...]; weight and bias [C].
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double epsilon = 1e-5);
/// Normalises each plane of x [N, C, ...]; weight and bias [C]. Throws ShapeError for planes of one element.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double epsilon = 1e-5);

}  // namespace tern::operators
