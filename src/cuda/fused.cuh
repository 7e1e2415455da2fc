#pragma once
// The activations that products and convolutions apply to their output, and their derivatives: the bits are those of
// the activations' own kernels.

#include "cuda/normal.cuh"
#include "cuda/sigmoid.cuh"
#include "tern/kernels/activation.hpp"

namespace tern::cuda {

using kernels::Activation;

// The rarer activations stay out of line: kernels of a few microseconds are bound by fetching their own code.
template <class T>
__device__ __noinline__ T activate_smoothly(T value, Activation activation) {
  if (activation == Activation::tanh) return tanh(value);
  if (activation == Activation::gelu) return value * normal_at(value).below;
  if (activation == Activation::hardswish) {
    const T raised = value + T(3), above = raised < T(0) ? T(0) : raised;
    return value * ((above > T(6) ? T(6) : above) / T(6));
  }
  const T share = sigmoid_of(value);
  return activation == Activation::silu ? value * share : share;
}

/// relu, or relu6; keeps NaN.
template <class T>
__device__ __forceinline__ T clip(T value, Activation activation) {
  const T above = value <= T(0) ? T(0) : value;
  return activation == Activation::relu6 && above > T(6) ? T(6) : above;
}

/// Whether a gradient passes: relu's behind NaN too, relu6's strictly between its bounds.
template <class T>
__device__ __forceinline__ bool passes_clip(T out, Activation activation) {
  return activation == Activation::relu6 ? out > T(0) && out < T(6) : !(out <= T(0));
}

template <class T>
__device__ __forceinline__ T activate(T value, Activation activation) {
  if (activation == Activation::none) return value;
  if (activation == Activation::relu || activation == Activation::relu6) return clip(value, activation);
  return activate_smoothly(value, activation);
}

/// gradient * activation'(in), from the output out = activation(in).
template <class T>
__device__ __forceinline__ T through_activation(T gradient, T out, Activation activation) {
  if (activation == Activation::none) return gradient;
  if (activation == Activation::relu || activation == Activation::relu6)
    return passes_clip(out, activation) ? gradient : T(0);
  const T slope = activation == Activation::sigmoid ? out * (T(1) - out) : (T(1) - out) * (T(1) + out);
  return gradient * slope;
}

}  // namespace tern::cuda
