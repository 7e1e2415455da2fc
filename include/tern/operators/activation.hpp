#pragma once

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
Tensor tanh(const Tensor& x);
/// log(1 + exp(x)).
Tensor softplus(const Tensor& x);
/// x * Phi(x) with the exact normal distribution function.
Tensor gelu(const Tensor& x);
/// exp(x) / sum(exp(x)) along `dim`, stable.
Tensor softmax(const Tensor& x, std::int64_t dim = -1);
Tensor log_softmax(const Tensor& x, std::int64_t dim = -1);
/// The activation that a fused operator would apply, alone.
Tensor activate(const Tensor& x, Activation activation);

}  // namespace tern::operators
