#pragma once

#include <optional>

#include "tern/operators/activation.hpp"

namespace tern::operators {

struct LocalResponseNormOptions {
  std::int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1;
};

/// x / (k + alpha / size * sum over `size` neighbouring channels of x^2)^beta; x [N, C, L, ...].
Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options = {});

struct BatchNormOptions {
  bool training = true;
  double momentum = 0.1;  ///< running = (1 - momentum) running + momentum batch
  double epsilon = 1e-5;
  Activation activation = Activation::none;
};

/// (x - mean) / sqrt(var + epsilon) * weight + bias per channel of x [N, C, ...]. In training with the batch's
/// statistics, which update running_mean and running_var in place (unless undefined) and are those of more than one
/// value; else with the running ones, which take no gradient. weight and bias are [C] or undefined. Plus `added`, of
/// x's shape and dtype (or undefined), then the activation; both are in the same kernel where the activation is none or
/// relu.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor running_mean, Tensor running_var,
                  const BatchNormOptions& options = {}, const Tensor& added = {});

// Of these, epsilon is added to the variance, which is that of the elements (divided by their number). weight and bias
// may be undefined.
/// Normalises over the last dimensions, whose sizes are `normalized_shape`: that is the shape of weight and bias.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double epsilon = 1e-5);
/// x / sqrt(mean(x^2) + epsilon) * weight over the last dimensions; when absent, epsilon is 2^-52 for float64 and 2^-23
/// for the others, 16 bits too, as torch has it.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> epsilon = {});
/// Normalises each of `groups` groups of neighbouring channels of each x [N, C, ...]; weight and bias [C].
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double epsilon = 1e-5);
/// Normalises each plane of x [N, C, ...]; weight and bias [C]. Planes of one element are a ShapeError.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double epsilon = 1e-5);

}  // namespace tern::operators
