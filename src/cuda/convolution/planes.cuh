#pragma once
// Sums over planes.

#include "cuda/elements.cuh"
#include "cuda/support.cuh"

namespace tern::cuda::convolution {

/// The sum of each channel of g [N, O, area]: the gradient of a bias, channels first.
template <class T>
void sum_planes(const Context& context, T* to, const T* g, std::int64_t N, std::int64_t O, std::int64_t area);

}  // namespace tern::cuda::convolution
