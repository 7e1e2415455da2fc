#pragma once
// Pooling of channels-last images: lanes are channels, and every position gathers its terms.

#include "tern/kernels/context.hpp"
#include "tern/kernels/pooling.hpp"

namespace tern::vectorized {

/// The slots of kernels::Pooling for channels > 1.
template <class T>
struct RowPooling {
  void (*max)(const Context&, T* out, std::uint8_t* index, const T* in, const kernels::Pool2d&);
  void (*max_backward)(const Context&, T* grad_in, const T* grad_out, const std::uint8_t* index,
                       const kernels::Pool2d&);
  void (*average)(const Context&, T* out, const T* in, const kernels::Pool2d&);
  void (*average_backward)(const Context&, T* grad_in, const T* grad_out, const kernels::Pool2d&);
  void (*adaptive)(const Context&, T* out, const T* in, const kernels::AdaptivePool2d&);
  void (*adaptive_backward)(const Context&, T* grad_in, const T* grad_out, const kernels::AdaptivePool2d&);
};

template <class T>
const RowPooling<T>& row_pooling();

}  // namespace tern::vectorized
