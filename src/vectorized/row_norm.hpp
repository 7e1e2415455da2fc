#pragma once

#include "tern/kernels/normalization.hpp"

namespace tern::vectorized {

/// The slots of kernels::Normalization for rows.
template <class T>
struct RowNormKernels {
  void (*forward)(Context&, T* y, T* mean, T* inverse_deviation, const T* x, const T* weight, const T* bias,
                  const kernels::RowNorm&);
  void (*backward)(Context&, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x, const T* weight,
                   const T* mean, const T* inverse_deviation, const kernels::RowNorm&);
};

template <class T>
const RowNormKernels<T>& row_norm();

}  // namespace tern::vectorized
