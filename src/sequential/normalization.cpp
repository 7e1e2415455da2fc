// Statistics are computed in double for the reason stated in reduction.cpp.

#include <algorithm>
#include <cmath>

#include "functions.hpp"
#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::BatchNorm;
using kernels::LocalResponseNorm;
using kernels::RowNorm;

/// k + alpha / size * sum x_j^2 over the channels in the window of element i of channel c in image n.
template <class T>
double response(const T* x, std::int64_t n, std::int64_t c, std::int64_t i, const LocalResponseNorm& shape) {
  const std::int64_t first = c - shape.size / 2;
  double squares = 0;
  for (std::int64_t j = std::max<std::int64_t>(first, 0); j < std::min(first + shape.size, shape.C); ++j) {
    const double value = load(x[place(shape.layout, shape.C, shape.area, n, j, i)]);
    squares += value * value;
  }
  return shape.k + shape.alpha / static_cast<double>(shape.size) * squares;
}

template <class T>
void local_response_norm(Context&, T* y, const T* x, const LocalResponseNorm& shape) {
  for (std::int64_t n = 0; n < shape.N; ++n)
    for (std::int64_t c = 0; c < shape.C; ++c)
      for (std::int64_t i = 0; i < shape.area; ++i) {
        const std::int64_t here = place(shape.layout, shape.C, shape.area, n, c, i);
        y[here] = store<T>(load(x[here]) / std::pow(response(x, n, c, i, shape), shape.beta));
      }
}

/// y_j = x_j r_j^-beta, and x_c occurs in r_j for every j whose window includes c:
/// grad_x_c = grad_y_c r_c^-beta - 2 alpha beta / size x_c sum_j grad_y_j y_j / r_j.
template <class T>
void local_response_norm_backward(Context&, T* grad_x, const T* grad_y, const T* x, const T* y,
                                  const LocalResponseNorm& shape) {
  const double factor = 2 * shape.alpha * shape.beta / static_cast<double>(shape.size);
  for (std::int64_t n = 0; n < shape.N; ++n)
    for (std::int64_t c = 0; c < shape.C; ++c)
      for (std::int64_t i = 0; i < shape.area; ++i) {
        const std::int64_t here = place(shape.layout, shape.C, shape.area, n, c, i);
        const std::int64_t last = c + shape.size / 2;
        double sum = 0;
        for (std::int64_t j = std::max<std::int64_t>(last - shape.size + 1, 0); j <= std::min(last, shape.C - 1); ++j) {
          const std::int64_t there = place(shape.layout, shape.C, shape.area, n, j, i);
          sum += double{load(grad_y[there])} * load(y[there]) / response(x, n, j, i, shape);
        }
        grad_x[here] = store<T>(load(grad_y[here]) / std::pow(response(x, n, c, i, shape), shape.beta) -
                                factor * load(x[here]) * sum);
      }
}

/// The sum of value(i) over the elements i of channel c.
template <class Value>
double sum_over_channel(const BatchNorm& shape, std::int64_t c, Value value) {
  double sum = 0;
  for (std::int64_t n = 0; n < shape.N; ++n)
    for (std::int64_t p = 0; p < shape.area; ++p) sum += value(place(shape.layout, shape.C, shape.area, n, c, p));
  return sum;
}

/// out[i] = value(i) for the elements i of channel c.
template <class T, class Value>
void write_channel(T* out, const BatchNorm& shape, std::int64_t c, Value value) {
  for (std::int64_t n = 0; n < shape.N; ++n)
    for (std::int64_t p = 0; p < shape.area; ++p) {
      const std::int64_t i = place(shape.layout, shape.C, shape.area, n, c, p);
      out[i] = store<T>(value(i));
    }
}

/// If `values` is null, `otherwise` replaces it.
template <class T>
double value_or(const T* values, std::int64_t c, double otherwise) {
  return values != nullptr ? double{load(values[c])} : otherwise;
}

/// A normalised value, plus the added one, and its activation.
template <class T>
double with_epilogue(double value, const T* added, std::int64_t i, const BatchNorm& shape) {
  value += value_or(added, i, 0);
  return activate(shape.activation, value);
}

template <class T>
void batch_norm(Context&, T* y, Scalar<T>* mean, Scalar<T>* inverse_deviation, Scalar<T>* running_mean,
                Scalar<T>* running_var, const T* x, const Scalar<T>* weight, const Scalar<T>* bias, const T* added,
                const BatchNorm& shape) {
  const double count = static_cast<double>(shape.N * shape.area);
  for (std::int64_t c = 0; c < shape.C; ++c) {
    const double center = sum_over_channel(shape, c, [&](std::int64_t i) { return double{load(x[i])}; }) / count;
    const auto squared_deviation = [&](std::int64_t i) { return (load(x[i]) - center) * (load(x[i]) - center); };
    const double variance = sum_over_channel(shape, c, squared_deviation) / count;
    const double inverse = 1 / std::sqrt(variance + shape.epsilon);

    mean[c] = static_cast<Scalar<T>>(center);
    inverse_deviation[c] = static_cast<Scalar<T>>(inverse);
    write_channel(y, shape, c, [&](std::int64_t i) {
      return with_epilogue((load(x[i]) - center) * inverse * value_or(weight, c, 1) + value_or(bias, c, 0), added, i,
                           shape);
    });

    if (running_mean != nullptr && count > 0) {  // an empty batch does not change the running statistics
      const double unbiased = count > 1 ? variance * count / (count - 1) : variance;
      running_mean[c] = static_cast<Scalar<T>>((1 - shape.momentum) * running_mean[c] + shape.momentum * center);
      running_var[c] = static_cast<Scalar<T>>((1 - shape.momentum) * running_var[c] + shape.momentum * unbiased);
    }
  }
}

template <class T>
void batch_norm_backward(Context&, T* grad_x, Scalar<T>* grad_weight, Scalar<T>* grad_bias, T* grad_added,
                         const T* grad_y, const T* x, const Scalar<T>* weight, const Scalar<T>* /*bias*/, const T* y,
                         const Scalar<T>* mean, const Scalar<T>* inverse_deviation, const BatchNorm& shape) {
  const double count = static_cast<double>(shape.N * shape.area);
  for (std::int64_t c = 0; c < shape.C; ++c) {
    const auto normalized = [&](std::int64_t i) { return (double{load(x[i])} - mean[c]) * inverse_deviation[c]; };
    const auto gradient = [&](std::int64_t i) -> double { return activate_gradient(shape.activation, grad_y, y, i); };
    const double sum = sum_over_channel(shape, c, gradient);
    const double product = sum_over_channel(shape, c, [&](std::int64_t i) { return gradient(i) * normalized(i); });

    if (grad_added != nullptr) write_channel(grad_added, shape, c, gradient);
    if (grad_weight != nullptr) grad_weight[c] = static_cast<Scalar<T>>(product);
    if (grad_bias != nullptr) grad_bias[c] = static_cast<Scalar<T>>(sum);
    if (grad_x == nullptr) continue;
    // Two factors on the same side of 1 are multiplied one after the other: their product may overflow a double.
    const double inverse = inverse_deviation[c], factor = value_or(weight, c, 1);
    const bool apart = (inverse > 1) != (std::abs(factor) > 1);
    const double first = apart ? inverse * factor : inverse, second = apart ? 1 : factor;
    write_channel(grad_x, shape, c, [&](std::int64_t i) {
      return first * (gradient(i) - sum / count - normalized(i) * product / count) * second;
    });
  }
}

template <class T>
void batch_norm_inference(Context&, T* y, const T* x, const Scalar<T>* weight, const Scalar<T>* bias, const T* added,
                          const Scalar<T>* running_mean, const Scalar<T>* running_var, const BatchNorm& shape) {
  for (std::int64_t c = 0; c < shape.C; ++c) {
    const double deviation = std::sqrt(running_var[c] + shape.epsilon);
    write_channel(y, shape, c, [&](std::int64_t i) {
      const double normal = (double{load(x[i])} - running_mean[c]) / deviation;
      return with_epilogue(normal * value_or(weight, c, 1) + value_or(bias, c, 0), added, i, shape);
    });
  }
}

/// The index into weight and bias for element i of a row.
std::int64_t parameter(const RowNorm& shape, std::int64_t row, std::int64_t i) {
  return row % shape.groups * (shape.length / shape.area) + i / shape.area;
}

template <class T>
void row_norm(Context&, T* y, Scalar<T>* mean, Scalar<T>* inverse_deviation, const T* x, const Scalar<T>* weight,
              const Scalar<T>* bias, const RowNorm& shape) {
  const auto count = static_cast<double>(shape.length);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* const in = x + row * shape.length;
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; shape.centred && i < shape.length; ++i) sum += load(in[i]);
    const double center = sum / count;
    for (std::int64_t i = 0; i < shape.length; ++i) squares += (load(in[i]) - center) * (load(in[i]) - center);
    const double inverse = 1 / std::sqrt(squares / count + shape.epsilon);
    if (mean != nullptr) mean[row] = static_cast<Scalar<T>>(center);
    inverse_deviation[row] = static_cast<Scalar<T>>(inverse);
    for (std::int64_t i = 0; i < shape.length; ++i) {
      const std::int64_t p = parameter(shape, row, i);
      y[row * shape.length + i] =
          store<T>((load(in[i]) - center) * inverse * value_or(weight, p, 1) + value_or(bias, p, 0));
    }
  }
}

template <class T>
void row_norm_backward(Context& context, T* grad_x, Scalar<T>* grad_weight, Scalar<T>* grad_bias, const T* grad_y,
                       const T* x, const Scalar<T>* weight, const Scalar<T>* mean, const Scalar<T>* inverse_deviation,
                       const RowNorm& shape) {
  const std::int64_t parameters = shape.groups * (shape.length / shape.area);
  Sums<double> weights(context, parameters), biases(context, parameters);
  const auto count = static_cast<double>(shape.length);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const double center = mean != nullptr ? double{mean[row]} : 0, inverse = inverse_deviation[row];
    const std::int64_t first = row * shape.length;
    const auto normalized = [&](std::int64_t i) { return (load(x[first + i]) - center) * inverse; };
    const auto gradient = [&](std::int64_t i) {
      return load(grad_y[first + i]) * value_or(weight, parameter(shape, row, i), 1);
    };
    double sum = 0, product = 0;
    for (std::int64_t i = 0; i < shape.length; ++i) {
      const std::int64_t p = parameter(shape, row, i);
      weights[p] += load(grad_y[first + i]) * normalized(i);
      biases[p] += load(grad_y[first + i]);
      if (shape.centred) sum += gradient(i);
      product += gradient(i) * normalized(i);
    }
    for (std::int64_t i = 0; grad_x != nullptr && i < shape.length; ++i)
      grad_x[first + i] = store<T>(inverse * (gradient(i) - sum / count - normalized(i) * (product / count)));
  }
  if (grad_weight != nullptr) weights.round_to(grad_weight);
  if (grad_bias != nullptr) biases.round_to(grad_bias);
}

}  // namespace

template <class T>
kernels::Normalization<T> normalization() {
  return {.local_response_norm = local_response_norm<T>,
          .local_response_norm_backward = local_response_norm_backward<T>,
          .batch_norm = batch_norm<T>,
          .batch_norm_backward = batch_norm_backward<T>,
          .batch_norm_inference = batch_norm_inference<T>,
          .row_norm = row_norm<T>,
          .row_norm_backward = row_norm_backward<T>};
}
template kernels::Normalization<float> normalization<float>();
template kernels::Normalization<double> normalization<double>();
template kernels::Normalization<BFloat16> normalization<BFloat16>();
template kernels::Normalization<Float16> normalization<Float16>();

}  // namespace tern::sequential
