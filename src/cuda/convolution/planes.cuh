#pragma once
// Work on whole planes, channels first.

#include "cuda/convolution/problem.cuh"

namespace tern::cuda::convolution {

/// The sum of each channel of g [N, O, area]: the gradient of a bias, channels first.
template <class T>
void sum_planes(const Context& context, T* to, const T* g, std::int64_t N, std::int64_t O, std::int64_t area);

/// to = grad_y * activation'(y), channels first, and the gradient of the bias in the same pass, where channels are
/// enough to fill the card; false: nothing is done.
template <class T>
bool pass_planes(const Context& context, T* to, T* grad_bias, const T* grad_y, const T* y,
                 const kernels::Conv2d& shape);

/// A 1x1 kernel by our own tiles (product_planar.cu): microseconds on an H200.
double tiles_time(const Problem& problem);

}  // namespace tern::cuda::convolution
