#pragma once

#include "cuda/support.cuh"
#include "tern/kernels/normalization.hpp"

namespace tern::cuda {

// Both layouts; slots of kernels::Normalization.
template <class T>
void local_response_norm(Context& context, T* y, const T* x, const kernels::LocalResponseNorm& sizes);
template <class T>
void local_response_norm_backward(Context& context, T* grad_x, const T* grad_y, const T* x, const T* y,
                                  const kernels::LocalResponseNorm& sizes);

}  // namespace tern::cuda
