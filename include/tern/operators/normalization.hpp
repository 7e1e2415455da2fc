#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

struct LocalResponseNormOptions {
  std::int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1;
};

/// x / (k + alpha / size * sum over `size` neighbouring channels of x^2)^beta; x [N, C, ...].
Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options = {});

struct BatchNormOptions {
  bool training = true;
  double momentum = 0.1;  ///< running = (1 - momentum) running + momentum batch
  double epsilon = 1e-5;
};

/// (x - mean) / sqrt(var + epsilon) * weight + bias per channel of x [N, C, ...]. In training with the batch's
/// statistics, which update running_mean and running_var in place (unless undefined); else with the running ones.
/// weight and bias are [C] or undefined.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor running_mean, Tensor running_var,
                  const BatchNormOptions& options = {});

}  // namespace tern::operators
