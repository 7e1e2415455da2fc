// Losses are computed in double for the reason stated in reduction.cpp.

#include <cmath>
#include <limits>
#include <vector>

#include "functions.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::CrossEntropy;
using kernels::Reduce;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Stores, sums or averages value(0) ... value(n - 1), of which `counted` count. A mean over nothing is 0 / 0, NaN.
template <class S, class Value>
void reduce(S* loss, Reduce how, std::int64_t n, std::int64_t counted, Value value) {
  if (how == Reduce::none) {
    for (std::int64_t i = 0; i < n; ++i) loss[i] = static_cast<S>(value(i));
    return;
  }
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += value(i);
  loss[0] = static_cast<S>(how == Reduce::mean ? sum / static_cast<double>(counted) : sum);
}

/// The gradient that reaches value(i).
template <class S>
double reduce_gradient(const S* grad_loss, Reduce how, std::int64_t i, std::int64_t counted) {
  if (how == Reduce::none) return grad_loss[i];
  return how == Reduce::mean ? grad_loss[0] / static_cast<double>(counted) : grad_loss[0];
}

std::int64_t counted_rows(const std::int64_t* labels, const CrossEntropy& shape) {
  std::int64_t counted = 0;
  for (std::int64_t row = 0; row < shape.rows; ++row)
    if (labels[row] != shape.ignore_index) ++counted;
  return counted;
}

bool is_class(std::int64_t label, const CrossEntropy& shape) { return 0 <= label && label < shape.classes; }

/// The probability that `label` gives to class c.
double target_of(std::int64_t c, std::int64_t label, const CrossEntropy& shape) {
  const double uniform = shape.label_smoothing / static_cast<double>(shape.classes);
  return c == label ? 1 - shape.label_smoothing + uniform : uniform;
}

/// The loss of one row; `probabilities` receives its softmax.
template <class T>
double cross_entropy_of(Scalar<T>* probabilities, const T* logits, std::int64_t label, const CrossEntropy& shape) {
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t c = 0; c < shape.classes; ++c) max = larger<double>(max, load(logits[c]));
  double sum = 0;
  for (std::int64_t c = 0; c < shape.classes; ++c) sum += std::exp(load(logits[c]) - max);
  for (std::int64_t c = 0; probabilities != nullptr && c < shape.classes; ++c)
    probabilities[c] = static_cast<Scalar<T>>(std::exp(load(logits[c]) - max) / sum);

  if (label == shape.ignore_index) return 0;
  if (!is_class(label, shape)) return not_a_number;
  double loss = 0;
  for (std::int64_t c = 0; c < shape.classes; ++c) {
    const double target = target_of(c, label, shape);
    // Neither term of -log_softmax = log(sum) + (max - logit) is negative. A class with target 0 costs nothing, even if
    // it is impossible.
    if (target != 0) loss += target * (std::log(sum) + (max - load(logits[c])));
  }
  return loss;
}

template <class T>
void cross_entropy_backward(Context&, T* grad_logits, const Scalar<T>* grad_loss, const Scalar<T>* probabilities,
                            const std::int64_t* labels, const CrossEntropy& shape) {
  const std::int64_t counted = counted_rows(labels, shape);
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t c = 0; c < shape.classes; ++c) {
      const std::int64_t i = row * shape.classes + c;
      double grad = 0;
      if (labels[row] != shape.ignore_index)
        grad = is_class(labels[row], shape) ? reduce_gradient(grad_loss, shape.reduce, row, counted) *
                                                  (probabilities[i] - target_of(c, labels[row], shape))
                                            : not_a_number;
      grad_logits[i] = store<T>(grad);
    }
}

template <class T>
void cross_entropy(Context& context, Scalar<T>* loss, Scalar<T>* probabilities, T* grad_logits, const T* logits,
                   const std::int64_t* labels, const CrossEntropy& shape) {
  reduce(loss, shape.reduce, shape.rows, counted_rows(labels, shape), [&](std::int64_t row) {
    return cross_entropy_of(probabilities == nullptr ? nullptr : probabilities + row * shape.classes,
                            logits + row * shape.classes, labels[row], shape);
  });
  if (grad_logits == nullptr) return;
  const std::vector<Scalar<T>> grad_loss(static_cast<std::size_t>(shape.reduce == Reduce::none ? shape.rows : 1), 1);
  cross_entropy_backward(context, grad_logits, grad_loss.data(), probabilities, labels, shape);
}

template <class T>
void nll(Context&, Scalar<T>* loss, const T* log_probabilities, const std::int64_t* labels, const CrossEntropy& shape) {
  reduce(loss, shape.reduce, shape.rows, counted_rows(labels, shape), [&](std::int64_t row) {
    if (labels[row] == shape.ignore_index) return 0.0;
    if (!is_class(labels[row], shape)) return not_a_number;
    return -double{load(log_probabilities[row * shape.classes + labels[row]])};
  });
}

template <class T>
void nll_backward(Context&, T* grad_in, const Scalar<T>* grad_loss, const std::int64_t* labels,
                  const CrossEntropy& shape) {
  const std::int64_t counted = counted_rows(labels, shape);
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t c = 0; c < shape.classes; ++c) {
      double grad = 0;
      if (labels[row] != shape.ignore_index) {
        if (!is_class(labels[row], shape)) grad = not_a_number;
        if (labels[row] == c) grad = -reduce_gradient(grad_loss, shape.reduce, row, counted);
      }
      grad_in[row * shape.classes + c] = store<T>(grad);
    }
}

/// A loss of n independent values: value(prediction, target).
template <auto value, class T>
void pointwise(Context&, Scalar<T>* loss, const T* prediction, const T* target, std::int64_t n, Reduce how) {
  reduce(loss, how, n, n, [&](std::int64_t i) { return value(double{load(prediction[i])}, double{load(target[i])}); });
}

/// derivative(prediction, target) is with respect to the prediction.
template <auto derivative, class T>
void pointwise_backward(Context&, T* grad_prediction, const Scalar<T>* grad_loss, const T* prediction, const T* target,
                        std::int64_t n, Reduce how) {
  for (std::int64_t i = 0; i < n; ++i)
    grad_prediction[i] = store<T>(reduce_gradient(grad_loss, how, i, n) *
                                  derivative(double{load(prediction[i])}, double{load(target[i])}));
}

double squared_error(double x, double t) { return (x - t) * (x - t); }
double squared_error_slope(double x, double t) { return 2 * (x - t); }
double absolute_error(double x, double t) { return std::abs(x - t); }
double absolute_error_slope(double x, double t) { return x > t ? 1 : x < t ? -1 : 0; }
double logits_entropy(double x, double t) { return relu_of(x) - x * t + std::log1p(std::exp(-std::abs(x))); }
double logits_entropy_slope(double x, double t) { return sigmoid_of(x) - t; }
double hinge(double x, double t) { return relu_of(1 - t * x); }
double hinge_slope(double x, double t) { return t * x < 1 ? -t : 0; }

}  // namespace

template <class T>
kernels::Loss<T> loss() {
  return {.cross_entropy = cross_entropy<T>,
          .cross_entropy_backward = cross_entropy_backward<T>,
          .nll = nll<T>,
          .nll_backward = nll_backward<T>,
          .mse = pointwise<squared_error, T>,
          .mse_backward = pointwise_backward<squared_error_slope, T>,
          .mae = pointwise<absolute_error, T>,
          .mae_backward = pointwise_backward<absolute_error_slope, T>,
          .binary_cross_entropy_with_logits = pointwise<logits_entropy, T>,
          .binary_cross_entropy_with_logits_backward = pointwise_backward<logits_entropy_slope, T>,
          .hinge = pointwise<hinge, T>,
          .hinge_backward = pointwise_backward<hinge_slope, T>};
}
template kernels::Loss<float> loss<float>();
template kernels::Loss<double> loss<double>();
template kernels::Loss<BFloat16> loss<BFloat16>();
template kernels::Loss<Float16> loss<Float16>();

}  // namespace tern::sequential
