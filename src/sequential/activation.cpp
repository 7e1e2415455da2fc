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
void relu(Context&, T* out, const T* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = relu_of(in[i]);
}

template <class T>
void relu_backward(Context&, T* grad_in, const T* grad_out, const T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) grad_in[i] = relu_gradient(grad_out[i], out[i]);
}

template <class T>
void leaky_relu(Context&, T* out, const T* in, std::int64_t n, T slope) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] > 0 ? in[i] : slope * in[i];
}

template <class T>
void leaky_relu_backward(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n, T slope) {
  for (std::int64_t i = 0; i < n; ++i) grad_in[i] = in[i] > 0 ? grad_out[i] : slope * grad_out[i];
}

template <class T>
void sigmoid(Context&, T* out, const T* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = sigmoid_of(in[i]);
}

template <class T>
void sigmoid_backward(Context&, T* grad_in, const T* grad_out, const T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) grad_in[i] = sigmoid_gradient(grad_out[i], out[i]);
}

template <class T>
void tanh(Context&, T* out, const T* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = std::tanh(in[i]);
}

template <class T>
void tanh_backward(Context&, T* grad_in, const T* grad_out, const T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) grad_in[i] = tanh_gradient(grad_out[i], out[i]);
}

template <class T>
void softplus(Context&, T* out, const T* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = relu_of(in[i]) + std::log1p(std::exp(-std::abs(in[i])));
}

template <class T>
void softplus_backward(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) grad_in[i] = grad_out[i] * sigmoid_of(in[i]);
}

/// The normal distribution function. erfc(-x) is 1 + erf(x), but keeps its digits where that is almost 0.
template <class T>
T normal_distribution(T x) {
  return std::erfc(-x / std::numbers::sqrt2_v<T>) / 2;
}

template <class T>
T normal_density(T x) {
  return std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
}

template <class T>
void gelu(Context&, T* out, const T* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] * normal_distribution(in[i]);
}

template <class T>
void gelu_backward(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    grad_in[i] = grad_out[i] * (normal_distribution(in[i]) + in[i] * normal_density(in[i]));
}

template <class T>
T largest(const T* in, std::int64_t length, std::int64_t stride) {
  T max = -std::numeric_limits<T>::infinity();
  for (std::int64_t j = 0; j < length; ++j) max = larger(max, in[j * stride]);
  return max;
}

/// sum(exp(in - max)), in double as in reduction.cpp.
template <class T>
double sum_of_exponentials(const T* in, std::int64_t length, std::int64_t stride, double max) {
  double sum = 0;
  for (std::int64_t j = 0; j < length; ++j) sum += std::exp(in[j * stride] - max);
  return sum;
}

template <class T>
void softmax(Context&, T* out, const T* in, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t, std::int64_t start) {
    const double max = largest(in + start, axis.length, axis.inner);
    const double sum = sum_of_exponentials(in + start, axis.length, axis.inner, max);
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const std::int64_t i = start + j * axis.inner;
      out[i] = static_cast<T>(std::exp(in[i] - max) / sum);
    }
  });
}

template <class T>
void softmax_backward(Context&, T* grad_in, const T* grad_out, const T* out, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t, std::int64_t start) {
    double sum = 0;
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const std::int64_t i = start + j * axis.inner;
      sum += static_cast<double>(grad_out[i]) * out[i];
    }
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const std::int64_t i = start + j * axis.inner;
      grad_in[i] = static_cast<T>(out[i] * (grad_out[i] - sum));
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
      out[i] = static_cast<T>(in[i] - max - log_sum);
    }
  });
}

template <class T>
void log_softmax_backward(Context&, T* grad_in, const T* grad_out, const T* out, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t, std::int64_t start) {
    double sum = 0;
    for (std::int64_t j = 0; j < axis.length; ++j) sum += grad_out[start + j * axis.inner];
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const std::int64_t i = start + j * axis.inner;
      grad_in[i] = static_cast<T>(grad_out[i] - std::exp(static_cast<double>(out[i])) * sum);
    }
  });
}

}  // namespace

template <class T>
kernels::Activations<T> activation() {
  return {.relu = relu<T>,
          .relu_backward = relu_backward<T>,
          .leaky_relu = leaky_relu<T>,
          .leaky_relu_backward = leaky_relu_backward<T>,
          .sigmoid = sigmoid<T>,
          .sigmoid_backward = sigmoid_backward<T>,
          .tanh = tanh<T>,
          .tanh_backward = tanh_backward<T>,
          .softplus = softplus<T>,
          .softplus_backward = softplus_backward<T>,
          .gelu = gelu<T>,
          .gelu_backward = gelu_backward<T>,
          .softmax = softmax<T>,
          .softmax_backward = softmax_backward<T>,
          .log_softmax = log_softmax<T>,
          .log_softmax_backward = log_softmax_backward<T>};
}
template kernels::Activations<float> activation<float>();
template kernels::Activations<double> activation<double>();

}  // namespace tern::sequential
