#pragma once
// The gradient of a convolution's weight on tensor cores: our own implicit matrix product, channels last, in TF32.

#include "cuda/conv_plans.cuh"

namespace tern::cuda {

/// Whether the problem (a grad_weight of float tensors that may be read as TF32) can run here.
bool tensor_core_grad_weight_fits(const ConvProblem& problem);
/// Into how many parts the sum over the positions is split.
std::int64_t tensor_core_slices(const ConvProblem& problem);
/// weight [O, KH, KW, C / groups] from x and g; `partials` has room for tensor_core_slices of them. Repeats bit for
/// bit.
void tensor_core_grad_weight(const Context& context, float* weight, float* partials, const float* x, const float* g,
                             const ConvProblem& problem);

}  // namespace tern::cuda
