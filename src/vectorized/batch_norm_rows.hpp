#pragma once

#include "tern/kernels/normalization.hpp"

namespace tern::vectorized {

/// The arrays of the slots of kernels::Normalization, null where those say so.
template <class T>
struct BatchNormArrays {
  T *y, *mean, *inverse_deviation, *running_mean, *running_var;
  const T *x, *weight, *bias, *added;
};
template <class T>
struct BatchNormGradients {
  T *grad_x, *grad_weight, *grad_bias, *grad_added;
  const T *grad_y, *x, *weight, *y, *mean, *inverse_deviation;
};
template <class T>
struct BatchNormInference {
  T* y;
  const T *x, *weight, *bias, *added, *running_mean, *running_var;
};

/// Batch normalisation of channels last: BatchNorm::area is 1, every position is a row of channels. Memory is read in
/// its order, by blocks of rows that a core's second-level cache holds. Their number is fixed by the shape, so the bits
/// do not depend on the threads.
template <class T>
struct BatchNormRowKernels {
  void (*forward)(Context&, const BatchNormArrays<T>&, const kernels::BatchNorm&);
  void (*backward)(Context&, const BatchNormGradients<T>&, const kernels::BatchNorm&);
  void (*inference)(Context&, const BatchNormInference<T>&, const kernels::BatchNorm&);
};

template <class T>
const BatchNormRowKernels<T>& batch_norm_rows();

}  // namespace tern::vectorized
