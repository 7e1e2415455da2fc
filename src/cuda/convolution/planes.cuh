#pragma once
// Sums over planes.

#include "cuda/support.cuh"

namespace tern::cuda::convolution {

/// The sum of each channel of g [N, O, area]: the gradient of a bias, channels first.
void sum_planes(const Context& context, float* to, const float* g, std::int64_t N, std::int64_t O, std::int64_t area);

}  // namespace tern::cuda::convolution
