#pragma once
// The activations that products and convolutions apply on the way out, and their derivatives on the way back in.

#include "tern/kernels/activation.hpp"

namespace tern::cuda {

using kernels::Activation;

template <class T>
__device__ __forceinline__ T activate(T value, Activation activation) {
  switch (activation) {
    case Activation::none:
      return value;
    case Activation::relu:
      return value > T(0) || value != value ? value : T(0);
    case Activation::sigmoid: {
      if (value >= T(0)) return T(1) / (T(1) + exp(-value));
      const T small = exp(value);
      return small / (T(1) + small);
    }
    default:
      return tanh(value);
  }
}

/// gradient * activation'(in), from the output out = activation(in).
template <class T>
__device__ __forceinline__ T through_activation(T gradient, T out, Activation activation) {
  switch (activation) {
    case Activation::none:
      return gradient;
    case Activation::relu:
      return out <= T(0) ? T(0) : gradient;
    case Activation::sigmoid:
      return gradient * out * (T(1) - out);
    default:
      return gradient * (T(1) - out * out);
  }
}

}  // namespace tern::cuda
