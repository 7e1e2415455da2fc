#pragma once

#include "tern/kernels/normalization.hpp"

namespace tern::vectorized {

/// The slots of kernels::Normalization for local response.
template <class T>
struct LocalResponse {
  void (*forward)(Context&, T* y, const T* x, const kernels::LocalResponseNorm&);
  void (*backward)(Context&, T* grad_x, const T* grad_y, const T* x, const T* y, const kernels::LocalResponseNorm&);
};

template <class T>
const LocalResponse<T>& local_response();

}  // namespace tern::vectorized
