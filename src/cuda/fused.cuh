#pragma once
// The activations that products and convolutions apply to their output, and their derivatives.

#include "tern/kernels/activation.hpp"

namespace tern::cuda {

using kernels::Activation;

// The rarer activations stay out of line: kernels of a few microseconds are bound by fetching their own code.
template <class T>
__device__ __noinline__ T activate_smoothly(T value, Activation activation) {
  if (activation == Activation::tanh) return tanh(value);
  if (value >= T(0)) return T(1) / (T(1) + exp(-value));
  const T small = exp(value);
  return small / (T(1) + small);
}

template <class T>
__device__ __forceinline__ T activate(T value, Activation activation) {
  if (activation == Activation::none) return value;
  if (activation == Activation::relu) return value > T(0) || value != value ? value : T(0);
  return activate_smoothly(value, activation);
}

/// gradient * activation'(in), from the output out = activation(in).
template <class T>
__device__ __forceinline__ T through_activation(T gradient, T out, Activation activation) {
  if (activation == Activation::none) return gradient;
  if (activation == Activation::relu) return out <= T(0) ? T(0) : gradient;
  const T slope = activation == Activation::sigmoid ? out * (T(1) - out) : (T(1) - out) * (T(1) + out);
  return gradient * slope;
}

}  // namespace tern::cuda
