#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

// Activations with a threshold, and gates. Floating dtypes. NaN stays NaN.

/// x / (1 + |x|).
Tensor softsign(const Tensor& x);
/// x > threshold ? x : value, as torch.nn.functional.threshold; ONNX's ThresholdedRelu has the value 0.
Tensor threshold(const Tensor& x, double threshold, double value = 0);
/// min(max(x, low), high); the derivative at both bounds is 0. Throws NumericError unless low <= high.
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
/// x - bias above lambda, x + bias below -lambda, else 0, as ONNX's Shrink. Throws NumericError unless lambda >= 0.
Tensor shrink(const Tensor& x, double lambda = 0.5, double bias = 0);
/// shrink without a bias: x where |x| > lambda, else 0.
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
/// shrink by lambda: x moved toward 0 by lambda, and 0 between.
Tensor softshrink(const Tensor& x, double lambda = 0.5);
Tensor tanhshrink(const Tensor& x);  ///< x - tanh(x).
/// first * sigmoid(second) for the two halves of x along `dim`. Throws ShapeError for an odd size.
Tensor glu(const Tensor& x, std::int64_t dim = -1);

}  // namespace tern::operators
