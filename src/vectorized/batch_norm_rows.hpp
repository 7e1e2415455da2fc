#pragma once

#include "tern/kernels/normalization.hpp"

namespace tern::vectorized {

/// Batch normalisation of channels last: BatchNorm::area is 1, every position is a row of channels. Memory is read in
/// its order, by blocks of rows that a core's second-level cache holds. Their number is fixed by the shape, so the bits
/// do not depend on the threads.
template <class T>
struct BatchNormRowKernels {
  void (*forward)(Context&, T* y, T* mean, T* inverse_deviation, T* running_mean, T* running_var, const T* x,
                  const T* weight, const T* bias, const T* added, const kernels::BatchNorm&);
  void (*backward)(Context&, T* grad_x, T* grad_weight, T* grad_bias, T* grad_added, const T* grad_y, const T* x,
                   const T* weight, const T* y, const T* mean, const T* inverse_deviation, const kernels::BatchNorm&);
  void (*inference)(Context&, T* y, const T* x, const T* weight, const T* bias, const T* added, const T* running_mean,
                    const T* running_var, const kernels::BatchNorm&);
};

template <class T>
const BatchNormRowKernels<T>& batch_norm_rows();

}  // namespace tern::vectorized
