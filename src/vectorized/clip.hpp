#pragma once
// Relu and relu6, the activations that kernels apply to their results: from 0 up to a top.

#include <limits>

#include "tern/kernels/activation.hpp"

namespace tern::vectorized {

constexpr bool clips(kernels::Activation activation) {
  return activation == kernels::Activation::relu || activation == kernels::Activation::relu6;
}

template <class T>
constexpr T top_of(kernels::Activation activation) {
  return activation == kernels::Activation::relu6 ? T{6} : std::numeric_limits<T>::infinity();
}

}  // namespace tern::vectorized
