#pragma once

#include "cuda/support.cuh"
#include "tern/kernels/normalization.hpp"

namespace tern::cuda {

// Slots of kernels::Normalization.
template <class T>
void row_norm(Context& context, T* y, Scalar<T>* mean, Scalar<T>* inverse_deviation, const T* x,
              const Scalar<T>* weight, const Scalar<T>* bias, const kernels::RowNorm& sizes);
template <class T>
void row_norm_backward(Context& context, T* grad_x, Scalar<T>* grad_weight, Scalar<T>* grad_bias, const T* grad_y,
                       const T* x, const Scalar<T>* weight, const Scalar<T>* mean, const Scalar<T>* inverse_deviation,
                       const kernels::RowNorm& sizes);

}  // namespace tern::cuda
