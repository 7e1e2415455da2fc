#pragma once
// The activations of products and convolutions beside relu and relu6, which their kernels apply: a pass of its own. And
// the gradients of all whose derivative is a function of the output.

#include <cmath>
#include <limits>

#include "vectorized/clip.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {

/// y = activation(y).
template <class T>
void activate_rest(Context& context, kernels::Activation activation, T* y, std::int64_t n) {
  const kernels::Activations<T> table = vectorized::activation<T>();
  switch (activation) {
    case kernels::Activation::sigmoid:
      return table.sigmoid(context, y, y, n);
    case kernels::Activation::tanh:
      return table.tanh(context, y, y, n);
    case kernels::Activation::gelu:
      return table.gelu(context, y, y, n);
    case kernels::Activation::silu:
      return table.silu(context, y, y, n);
    case kernels::Activation::hardswish:
      return table.hardswish(context, y, y, n);
    default:
      return;
  }
}

/// out = grad * activation'(in), from y = activation(in).
template <class T>
void through_activation(Context& context, kernels::Activation activation, T* out, const T* grad, const T* y,
                        std::int64_t n) {
  const kernels::Activations<T> table = vectorized::activation<T>();
  switch (activation) {
    case kernels::Activation::relu:
      return table.relu_backward(context, out, grad, y, n);
    case kernels::Activation::sigmoid:
      return table.sigmoid_backward(context, out, grad, y, n);
    case kernels::Activation::tanh:
      return table.tanh_backward(context, out, grad, y, n);
    case kernels::Activation::relu6:  // between its bounds, without them
      return vectorized::arithmetic<T>().clamp_backward(context, out, grad, y, n, std::numeric_limits<T>::denorm_min(),
                                                        std::nextafter(T{6}, T{0}));
    default:
      return;
  }
}

}  // namespace tern::vectorized
