#include <cmath>
#include <limits>
#include <numbers>

#include "functions.hpp"
#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::Axis;

template <class T>
void leaky_relu(Context&, T* out, const T* in, std::int64_t n, Scalar<T> slope) {
  map(
      out, n, [=](Scalar<T> x) { return x > 0 ? x : slope * x; }, in);
}

template <class T>
void leaky_relu_backward(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n, Scalar<T> slope) {
  map(
      grad_in, n, [=](Scalar<T> grad, Scalar<T> x) { return x > 0 ? grad : slope * grad; }, grad_out, in);
}

template <class T>
T normal_density(T x) {
  return std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
}
template <class T>
T gelu_gradient(T grad, T x) {
  return grad * (normal_distribution(x) + x * normal_density(x));
}
template <class T>
T silu_gradient(T grad, T x) {
  const T share = sigmoid_of(x);
  return grad * (share * (1 + x * (1 - share)));
}
template <class T>
T hardswish_gradient(T grad, T x) {
  if (x <= -3) return 0;
  return x >= 3 ? grad : grad * (x / 3 + T(0.5));
}

template <class T>
Scalar<T> largest(const T* in, std::int64_t length, std::int64_t stride) {
  Scalar<T> max = -std::numeric_limits<Scalar<T>>::infinity();
  for (std::int64_t j = 0; j < length; ++j) max = larger(max, load(in[j * stride]));
  return max;
}

/// sum(exp(in - max)), in double as in reduction.cpp.
template <class T>
double sum_of_exponentials(const T* in, std::int64_t length, std::int64_t stride, double max) {
  double sum = 0;
  for (std::int64_t j = 0; j < length; ++j) sum += std::exp(load(in[j * stride]) - max);
  return sum;
}

template <class T>
void softmax(Context&, T* out, const T* in, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t, std::int64_t start) {
    const double max = largest(in + start, axis.length, axis.inner);
    const double sum = sum_of_exponentials(in + start, axis.length, axis.inner, max);
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const std::int64_t i = start + j * axis.inner;
      out[i] = store<T>(std::exp(load(in[i]) - max) / sum);
    }
  });
}

template <class T>
void softmax_backward(Context&, T* grad_in, const T* grad_out, const T* out, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t, std::int64_t start) {
    double sum = 0;
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const std::int64_t i = start + j * axis.inner;
      sum += double{load(grad_out[i])} * load(out[i]);
    }
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const std::int64_t i = start + j * axis.inner;
      grad_in[i] = store<T>(load(out[i]) * (load(grad_out[i]) - sum));
    }
  });
}

template <class T>
void log_softmax(Context&, T* out, const T* in, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t, std::int64_t start) {
    const double max = largest(in + start, axis.length, axis.inner);
    const double log_sum = std::log(sum_of_exponentials(in + start, axis.length, axis.inner, max));
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const std::int64_t i = start + j * axis.inner;
      out[i] = store<T>(load(in[i]) - max - log_sum);
    }
  });
}

template <class T>
void log_softmax_backward(Context&, T* grad_in, const T* grad_out, const T* out, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t, std::int64_t start) {
    double sum = 0;
    for (std::int64_t j = 0; j < axis.length; ++j) sum += load(grad_out[start + j * axis.inner]);
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const std::int64_t i = start + j * axis.inner;
      grad_in[i] = store<T>(load(grad_out[i]) - std::exp(double{load(out[i])}) * sum);
    }
  });
}

}  // namespace

template <class T>
kernels::Activations<T> activation() {
  using S = Scalar<T>;
  return {.relu = unary<relu_of<S>, T>,
          .relu_backward = unary_backward<relu_gradient<S>, T>,
          .leaky_relu = leaky_relu<T>,
          .leaky_relu_backward = leaky_relu_backward<T>,
          .sigmoid = unary<sigmoid_of<S>, T>,
          .sigmoid_backward = unary_backward<sigmoid_gradient<S>, T>,
          .tanh = unary<[](S x) { return std::tanh(x); }, T>,
          .tanh_backward = unary_backward<tanh_gradient<S>, T>,
          .softplus = unary<[](S x) { return relu_of(x) + std::log1p(std::exp(-std::abs(x))); }, T>,
          .softplus_backward = unary_backward<[](S grad, S x) { return grad * sigmoid_of(x); }, T>,
          .gelu = unary<[](S x) { return x * normal_distribution(x); }, T>,
          .gelu_backward = unary_backward<gelu_gradient<S>, T>,
          .silu = unary<silu_of<S>, T>,
          .silu_backward = unary_backward<silu_gradient<S>, T>,
          .hardswish = unary<hardswish_of<S>, T>,
          .hardswish_backward = unary_backward<hardswish_gradient<S>, T>,
          .softmax = softmax<T>,
          .softmax_backward = softmax_backward<T>,
          .log_softmax = log_softmax<T>,
          .log_softmax_backward = log_softmax_backward<T>};
}
template kernels::Activations<float> activation<float>();
template kernels::Activations<double> activation<double>();
template kernels::Activations<BFloat16> activation<BFloat16>();
template kernels::Activations<Float16> activation<Float16>();

}  // namespace tern::sequential
