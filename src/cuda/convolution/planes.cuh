#pragma once
// Work on whole planes, channels first.

#include "cuda/convolution/problem.cuh"

namespace tern::cuda::convolution {

/// The sum of each channel of g [N, O, area]: the gradient of a bias, channels first.
template <class T>
void sum_planes(const Context& context, T* to, const T* g, std::int64_t N, std::int64_t O, std::int64_t area);

/// A 1x1 kernel by our own tiles (product_planar.cu): microseconds on an H200.
double tiles_time(const Problem& problem);

}  // namespace tern::cuda::convolution
