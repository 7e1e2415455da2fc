#pragma once

#include <optional>

#include "tern/kernels/activation.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern {
using kernels::Activation;
}

namespace tern::operators {

/// max(x, 0); the derivative at 0 is 0.
Tensor relu(const Tensor& x);
/// x > 0 ? x : negative_slope * x.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// 1 / (1 + exp(-x)).
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);  ///< The hyperbolic tangent.
/// log(1 + exp(x)), exact for every x.
Tensor softplus(const Tensor& x);
/// log(1 + exp(beta x)) / beta, and x itself if beta x exceeds the threshold, as in torch (default 20). Throws
/// NumericError if beta is 0 or NaN.
Tensor softplus(const Tensor& x, double beta, double threshold = 20);
/// x * Phi(x) with the exact normal distribution function.
Tensor gelu(const Tensor& x);
/// x * sigmoid(x).
Tensor silu(const Tensor& x);
/// x * relu6(x + 3) / 6. The derivative is 0 up to -3 and 1 from 3 on.
Tensor hardswish(const Tensor& x);
/// exp(x) / sum(exp(x)) along `dim`, stable. With `dtype`, x is converted to it first.
Tensor softmax(const Tensor& x, std::int64_t dim = -1, std::optional<DType> dtype = {});
/// log(softmax(x)), stable.
Tensor log_softmax(const Tensor& x, std::int64_t dim = -1, std::optional<DType> dtype = {});
/// Applies the activation of a fused operator by itself.
Tensor activate(const Tensor& x, Activation activation);

// Composed of other operators; for every floating dtype.
/// x > 0 ? x : alpha * (exp(x) - 1), exact near 0 too.
Tensor elu(const Tensor& x, double alpha = 1);
/// 1.0507 * elu(x, 1.6733), with torch's digits.
Tensor selu(const Tensor& x);
/// x > 0 ? x : alpha * (exp(x / alpha) - 1). A NumericError unless alpha > 0.
Tensor celu(const Tensor& x, double alpha = 1);
/// x > 0 ? x : weight * x; weight [1], or [C] for x [N, C, ...].
Tensor prelu(const Tensor& x, const Tensor& weight);
/// min(max(x, 0), 6); the derivative at 0 and 6 is 0.
Tensor relu6(const Tensor& x);
/// relu6(x + 3) / 6.
Tensor hardsigmoid(const Tensor& x);
/// x * tanh(softplus(x)).
Tensor mish(const Tensor& x);
/// gelu by the approximation x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
Tensor gelu_tanh(const Tensor& x);
/// log(sigmoid(x)), finite for every finite x.
Tensor logsigmoid(const Tensor& x);

}  // namespace tern::operators
