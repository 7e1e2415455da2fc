#pragma once
// What follows a product or a convolution: a sum and the activation, on rows that are still in the cache.

#include <cstdint>

#include "tern/kernels/activation.hpp"

namespace tern::vectorized {

template <class T>
struct FinishKernels {
  /// y[i] = activation(y[i] + added[i]); `added` may be null. The bits are those of the two operators in turn.
  void (*run)(T* y, const T* added, std::int64_t n, kernels::Activation activation);
};

/// The kernels for the best instruction set of this processor.
template <class T>
const FinishKernels<T>& finish_kernels();

}  // namespace tern::vectorized
