#pragma once
// Our own implicit matrix products: convolutions of float tensors, channels last, whose patches are never written out.
// Strict problems run on fused multiply-adds, those that may be read as TF32 on tensor cores. All repeat bit for bit.

#include "cuda/conv_plans.cuh"

namespace tern::cuda {

/// Whether the problem (forward or grad_weight) can run here.
bool implicit_fits(const ConvProblem& problem);

/// y from x and weight [O, KH, KW, C / groups], plus `bias` unless it is null, and with problem.relu max(0, .) of it.
void implicit_forward(const Context& context, float* y, const float* x, const float* weight, const float* bias,
                      const ConvProblem& problem);

/// Into how many parts the sum of a grad_weight over the positions is split.
std::int64_t implicit_slices(const ConvProblem& problem);
/// weight [O, KH, KW, C / groups] from x and g; `partials` has room for implicit_slices of them.
void implicit_grad_weight(const Context& context, float* weight, float* partials, const float* x, const float* g,
                          const ConvProblem& problem);

}  // namespace tern::cuda
