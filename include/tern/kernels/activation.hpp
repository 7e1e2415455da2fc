#pragma once

#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

/// An activation that linear and conv2d can apply to their output in the same pass. Backward passes take those whose
/// derivative is a function of the output: `by_output`.
enum class Activation : std::uint8_t { none, relu, sigmoid, tanh, relu6, gelu, silu, hardswish };

constexpr bool by_output(Activation activation) { return activation <= Activation::relu6; }

/// An array seen as [outer, length, inner]; softmax and reductions run along `length`.
struct Axis {
  std::int64_t outer = 1, length = 1, inner = 1;

  using Members = MemberList<&Axis::outer, &Axis::length, &Axis::inner>;
};

/// Activations. Elementwise: `out` may be `in`, `grad_in` may be `grad_out`.
template <class T>
struct Activations {
  using Unary = Kernel<void(Context&, T* out, const T* in, std::int64_t n)>;
  using Backward = Kernel<void(Context&, T* grad_in, const T* grad_out, const T* saved, std::int64_t n)>;

  /// max(in, 0); NaN stays NaN. The derivative at 0 is 0, at NaN 1: out <= 0 ? 0 : grad. Backward saves out; so do
  /// linear and conv2d when they apply it.
  Unary relu;
  Backward relu_backward;
  /// in > 0 ? in : slope * in. The derivative at 0 is `slope`. Backward saves in.
  Kernel<void(Context&, T* out, const T* in, std::int64_t n, Scalar<T> slope)> leaky_relu;
  Kernel<void(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n, Scalar<T> slope)>
      leaky_relu_backward;
  /// 1 / (1 + exp(-in)) without overflow. Backward saves out: grad * out * (1 - out).
  Unary sigmoid;
  Backward sigmoid_backward;
  /// Backward saves out: grad * (1 - out^2).
  Unary tanh;
  Backward tanh_backward;
  /// log(1 + exp(in)) = max(in, 0) + log1p(exp(-|in|)). Backward saves in: grad * sigmoid(in).
  Unary softplus;
  Backward softplus_backward;
  /// in * Phi(in), Phi the normal distribution function, by erf (not the tanh approximation). Backward saves in.
  Unary gelu;
  Backward gelu_backward;
  /// in / (1 + exp(-in)). Backward saves in.
  Unary silu;
  Backward silu_backward;
  /// in * relu6(in + 3) / 6. The derivative is 0 up to -3 and 1 from 3 on. Backward saves in.
  Unary hardswish;
  Backward hardswish_backward;

  /// exp(in - max) / sum along `length`; a row of -infinity alone gives NaN.
  Kernel<void(Context&, T* out, const T* in, const Axis&)> softmax;
  /// grad_in = out * (grad_out - sum(grad_out * out)).
  Kernel<void(Context&, T* grad_in, const T* grad_out, const T* out, const Axis&)> softmax_backward;
  /// in - max - log(sum(exp(in - max))).
  Kernel<void(Context&, T* out, const T* in, const Axis&)> log_softmax;
  /// grad_in = grad_out - exp(out) * sum(grad_out).
  Kernel<void(Context&, T* grad_in, const T* grad_out, const T* out, const Axis&)> log_softmax_backward;

  using Members = MemberList<&Activations::relu, &Activations::relu_backward, &Activations::leaky_relu,
                             &Activations::leaky_relu_backward, &Activations::sigmoid, &Activations::sigmoid_backward,
                             &Activations::tanh, &Activations::tanh_backward, &Activations::softplus,
                             &Activations::softplus_backward, &Activations::gelu, &Activations::gelu_backward,
                             &Activations::silu, &Activations::silu_backward, &Activations::hardswish,
                             &Activations::hardswish_backward, &Activations::softmax, &Activations::softmax_backward,
                             &Activations::log_softmax, &Activations::log_softmax_backward>;
};

}  // namespace tern::kernels
