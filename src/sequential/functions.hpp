#pragma once
// Functions of one element that several families of this mode share.

#include <cmath>
#include <cstdint>
#include <numbers>

#include "tern/core/convert.hpp"
#include "tern/kernels/activation.hpp"

namespace tern::sequential {

// Kernels compute in Scalar<T> or double: a 16-bit element becomes float when loaded and is rounded once, when stored.
template <class T>
Scalar<T> load(T element) {
  return convert<Scalar<T>>(element);
}
template <class T, class From>
T store(From result) {
  return convert<T>(result);
}

/// The index of position p of channel c in image n in [N, C, area], or [N, area, C] with channels last.
inline std::int64_t place(kernels::Layout layout, std::int64_t C, std::int64_t area, std::int64_t n, std::int64_t c,
                          std::int64_t p) {
  return layout == kernels::Layout::channels_first ? (n * C + c) * area + p : (n * area + p) * C + c;
}

/// Whether `x` replaces `best`: it compares better, or it is the first NaN.
template <class T, class Better>
bool wins(T x, T best, Better better) {
  return better(x, best) || (std::isnan(x) && !std::isnan(best));
}

/// Of two numbers; NaN if either is NaN.
template <class T>
T larger(T a, T b) {
  return a > b || std::isnan(a) ? a : b;
}
template <class T>
T smaller(T a, T b) {
  return a < b || std::isnan(a) ? a : b;
}

template <class T>
T relu_of(T x) {
  return x <= 0 ? T(0) : x;  // because of this comparison NaN stays NaN
}

template <class T>
T sigmoid_of(T x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const T power = std::exp(x);
  return power / (1 + power);
}

template <class T>
T relu6_of(T x) {
  return smaller(larger(x, T(0)), T(6));
}

template <class T>
T silu_of(T x) {
  return x * sigmoid_of(x);
}

template <class T>
T hardswish_of(T x) {
  return x * (relu6_of(x + 3) / 6);
}

/// The normal distribution function. erfc(-x) equals 1 + erf(x) but keeps its digits where that is nearly 0.
template <class T>
T normal_distribution(T x) {
  return std::erfc(-x / std::numbers::sqrt2_v<T>) / 2;
}

/// The gradient of an activation's input, from its output `y`.
template <class T>
T relu_gradient(T grad_y, T y) {
  return y <= 0 ? T(0) : grad_y;  // for NaN too
}
template <class T>
T relu6_gradient(T grad_y, T y) {
  return 0 < y && y < 6 ? grad_y : T(0);
}
template <class T>
T sigmoid_gradient(T grad_y, T y) {
  return grad_y * y * (1 - y);
}
template <class T>
T tanh_gradient(T grad_y, T y) {
  return grad_y * ((1 - y) * (1 + y));
}

/// The activation that linear and conv2d apply to each output.
template <class T>
T activate(kernels::Activation activation, T x) {
  switch (activation) {
    case kernels::Activation::relu:
      return relu_of(x);
    case kernels::Activation::sigmoid:
      return sigmoid_of(x);
    case kernels::Activation::tanh:
      return std::tanh(x);
    case kernels::Activation::relu6:
      return relu6_of(x);
    case kernels::Activation::gelu:
      return x * normal_distribution(x);
    case kernels::Activation::silu:
      return silu_of(x);
    case kernels::Activation::hardswish:
      return hardswish_of(x);
    default:
      return x;
  }
}

/// The gradient before that activation, for output i. Without an activation `y` is not read.
template <class T>
Scalar<T> activate_gradient(kernels::Activation activation, const T* grad_y, const T* y, std::int64_t i) {
  switch (activation) {
    case kernels::Activation::relu:
      return relu_gradient(load(grad_y[i]), load(y[i]));
    case kernels::Activation::sigmoid:
      return sigmoid_gradient(load(grad_y[i]), load(y[i]));
    case kernels::Activation::tanh:
      return tanh_gradient(load(grad_y[i]), load(y[i]));
    case kernels::Activation::relu6:
      return relu6_gradient(load(grad_y[i]), load(y[i]));
    default:
      return load(grad_y[i]);
  }
}

}  // namespace tern::sequential
