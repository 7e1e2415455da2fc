// Losses. Cross-entropy reads each row of logits once; every total is a sum over fixed blocks.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/loss.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gradient.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/math.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/softmax.hpp"
#include "vectorized/sum_blocks.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::CrossEntropy;
using kernels::Reduce;

// Rough costs of one element in nanoseconds.
constexpr double streamed = 0.3, exponential = 1, two_functions = 2;

// ---- sums over rows ------------------------------------------------------------------------------------------------

std::int64_t counted_rows(const std::int64_t* labels, const CrossEntropy& p) {
  return p.rows - std::count(labels, labels + p.rows, p.ignore_index);
}

bool in_range(std::int64_t label, const CrossEntropy& p) { return label >= 0 && label < p.classes; }

/// The loss, and the gradient, of a row whose label is not a class: 0 if ignored, NaN for a bad label.
template <class T>
T of_no_class(std::int64_t label, const CrossEntropy& p) {
  return label == p.ignore_index ? T(0) : std::numeric_limits<T>::quiet_NaN();
}

template <class T>
HWY_NOINLINE T sum_of(const T* values, std::int64_t n) {
  return map_sum(Same{}, n, values);
}

/// Calls row_loss(row) for all rows; `loss` gets the values, their sum or their mean.
template <class T, class Row>
void sum_rows(Context& context, T* loss, const std::int64_t* labels, const CrossEntropy& p, double nanoseconds,
              const Row& row_loss) {
  constexpr std::int64_t few = 512;  // values on the stack
  T on_stack[few];
  const bool separate = p.reduce != Reduce::none && p.rows > few;
  const Scratch scratch(context, separate ? static_cast<std::size_t>(p.rows) * sizeof(T) : 0);
  T* values = p.reduce == Reduce::none ? loss : separate ? scratch.as<T>() : on_stack;
  parallel_for(context, p.rows, nanoseconds, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) values[row] = row_loss(row);
  });
  if (p.reduce == Reduce::none) return;
  const T total = sum_blocks<T>(context, p.rows, streamed, [&](std::int64_t begin, std::int64_t end) {
    return sum_of(values + begin, end - begin);
  });
  *loss = p.reduce == Reduce::mean ? total / static_cast<T>(counted_rows(labels, p)) : total;
}

/// The factor of a row's gradient.
template <class T>
struct RowScale {
  const T* grad_loss;  ///< null: 1
  T common;
  bool per_row;
  RowScale(const T* grad_loss_, const std::int64_t* labels, const CrossEntropy& p)
      : grad_loss(grad_loss_), common(1), per_row(grad_loss != nullptr && p.reduce == Reduce::none) {
    if (grad_loss != nullptr && !per_row) common = *grad_loss;
    if (p.reduce == Reduce::mean) common /= static_cast<T>(counted_rows(labels, p));
  }
  T operator()(std::int64_t row) const { return per_row ? grad_loss[row] : common; }
};

// ---- operations of vectors -----------------------------------------------------------------------------------------

/// maximum - in: what a class's -log(probability) adds to log(sum).
template <class T>
struct Below {
  T maximum;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V in) const {
    return hn::Sub(hn::Set(d, maximum), in);
  }
};

template <class T>
struct ProbabilityGradient {
  T scale, uniform;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V probability) const {
    return hn::Mul(hn::Set(d, scale), hn::Sub(probability, hn::Set(d, uniform)));
  }
};

struct SquaredError {
  static constexpr double cost = streamed;
  static constexpr int factor = 2;  ///< factor of the gradient: doubling the difference might overflow
  template <class D, class V>
  HWY_INLINE V value(D /*d*/, V prediction, V target) const {
    const V difference = hn::Sub(prediction, target);
    return hn::Mul(difference, difference);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D /*d*/, V prediction, V target) const {
    return hn::Sub(prediction, target);
  }
};

struct AbsoluteError {
  static constexpr double cost = streamed;
  static constexpr int factor = 1;
  template <class D, class V>
  HWY_INLINE V value(D /*d*/, V prediction, V target) const {
    return hn::Abs(hn::Sub(prediction, target));
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V prediction, V target) const {
    const V one = hn::Set(d, hn::TFromD<D>(1));
    return hn::Sub(hn::IfThenElseZero(hn::Gt(prediction, target), one),
                   hn::IfThenElseZero(hn::Lt(prediction, target), one));
  }
};

struct LogitsCrossEntropy {
  static constexpr double cost = two_functions;
  static constexpr int factor = 1;
  template <class D, class V>
  HWY_INLINE V value(D d, V x, V target) const {
    const V positive = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Zero(d));
    return hn::Add(hn::Sub(positive, hn::Mul(x, target)), log1p_of_exp_of_minus_abs(d, x));
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V target) const {
    return hn::Sub(sigmoid(d, x), target);
  }
};

struct Hinge {
  static constexpr double cost = streamed;
  static constexpr int factor = 1;
  template <class D, class V>
  HWY_INLINE V value(D d, V x, V target) const {
    return larger(hn::Sub(hn::Set(d, hn::TFromD<D>(1)), hn::Mul(target, x)), hn::Zero(d));
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V target) const {
    return hn::IfThenElseZero(hn::Lt(hn::Mul(target, x), hn::Set(d, hn::TFromD<D>(1))), hn::Neg(target));
  }
};

template <class Error>
struct ErrorValue {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V prediction, V target) const {
    return Error{}.value(d, prediction, target);
  }
};
template <class Error, class T>
struct ErrorGradient {
  T scale;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V prediction, V target) const {
    return hn::Mul(hn::Set(d, scale), Error{}.derivative(d, prediction, target));
  }
};
template <class Error>
struct ErrorGradients {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_loss, V prediction, V target) const {
    const V scale = hn::Mul(grad_loss, hn::Set(d, static_cast<hn::TFromD<D>>(Error::factor)));
    return hn::Mul(scale, Error{}.derivative(d, prediction, target));
  }
};

template <class Error, class T>
HWY_NOINLINE T error_sum(const T* prediction, const T* target, std::int64_t n) {
  return map_sum(ErrorValue<Error>{}, n, prediction, target);
}

template <class Error, class T>
void pointwise(Context& context, T* loss, const T* prediction, const T* target, std::int64_t n, Reduce reduce) {
  if (reduce == Reduce::none)
    return map_parallel(context, Error::cost, ErrorValue<Error>{}, loss, n, prediction, target);
  const T total = sum_blocks<T>(context, n, Error::cost, [&](std::int64_t begin, std::int64_t end) {
    return error_sum<Error>(prediction + begin, target + begin, end - begin);
  });
  *loss = reduce == Reduce::mean ? total / static_cast<T>(n) : total;
}

template <class Error, class T>
void pointwise_backward(Context& context, T* grad_prediction, const T* grad_loss, const T* prediction, const T* target,
                        std::int64_t n, Reduce reduce) {
  if (n <= 0) return;
  if (reduce == Reduce::none)
    return map_parallel(context, Error::cost, ErrorGradients<Error>{}, grad_prediction, n, grad_loss, prediction,
                        target);
  const T scale =
      static_cast<T>(Error::factor) * (reduce == Reduce::mean ? *grad_loss / static_cast<T>(n) : *grad_loss);
  map_parallel(context, Error::cost, ErrorGradient<Error, T>{scale}, grad_prediction, n, prediction, target);
}

// ---- the slots -----------------------------------------------------------------------------------------------------

template <class T>
HWY_NOINLINE T cross_entropy_row(T* probabilities, const T* logits, std::int64_t label, const CrossEntropy& p) {
  const RowSum<T> row = p.classes > 0 ? softmax_row(probabilities, logits, p.classes) : RowSum<T>{};
  if (label == p.ignore_index || !in_range(label, p)) return of_no_class<T>(label, p);
  const T logarithm = std::log(row.sum), hit = logarithm + (row.maximum - logits[label]);
  if (p.label_smoothing == 0) return hit;
  const T smoothing = static_cast<T>(p.label_smoothing);
  const T average = logarithm + map_sum(Below<T>{row.maximum}, p.classes, logits) / static_cast<T>(p.classes);
  return (smoothing < 1 ? (T(1) - smoothing) * hit : T(0)) + smoothing * average;
}

template <class T>
void cross_entropy_backward(Context& context, T* grad_logits, const T* grad_loss, const T* probabilities,
                            const std::int64_t* labels, const CrossEntropy& p) {
  const RowScale<T> scale(grad_loss, labels, p);
  const T smoothing = static_cast<T>(p.label_smoothing), uniform = smoothing / static_cast<T>(p.classes);
  parallel_for(context, p.rows, 5 + streamed * static_cast<double>(p.classes),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   const std::int64_t at = row * p.classes, label = labels[row];
                   if (label == p.ignore_index || !in_range(label, p)) {
                     std::fill_n(grad_logits + at, p.classes, of_no_class<T>(label, p));
                     continue;
                   }
                   map(ProbabilityGradient<T>{scale(row), uniform}, grad_logits + at, p.classes, probabilities + at);
                   grad_logits[at + label] = scale(row) * (probabilities[at + label] - (uniform + (T(1) - smoothing)));
                 }
               });
}

template <class T>
void cross_entropy(Context& context, T* loss, T* probabilities, T* grad_logits, const T* logits,
                   const std::int64_t* labels, const CrossEntropy& p) {
  const Scratch own(context, probabilities == nullptr ? static_cast<std::size_t>(p.rows * p.classes) * sizeof(T) : 0);
  if (probabilities == nullptr) probabilities = own.as<T>();
  sum_rows(context, loss, labels, p, 15 + exponential * static_cast<double>(p.classes), [&](std::int64_t row) {
    return cross_entropy_row(probabilities + row * p.classes, logits + row * p.classes, labels[row], p);
  });
  if (grad_logits != nullptr) cross_entropy_backward<T>(context, grad_logits, nullptr, probabilities, labels, p);
}

template <class T>
void nll(Context& context, T* loss, const T* log_probabilities, const std::int64_t* labels, const CrossEntropy& p) {
  sum_rows(context, loss, labels, p, 2, [&](std::int64_t row) {
    const std::int64_t label = labels[row];
    if (label == p.ignore_index || !in_range(label, p)) return of_no_class<T>(label, p);
    return -log_probabilities[row * p.classes + label];
  });
}

template <class T>
void nll_backward(Context& context, T* grad_in, const T* grad_loss, const std::int64_t* labels, const CrossEntropy& p) {
  const RowScale<T> scale(grad_loss, labels, p);
  parallel_for(context, p.rows, 5 + 0.1 * static_cast<double>(p.classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* grad = grad_in + row * p.classes;
      const bool counts = labels[row] != p.ignore_index && in_range(labels[row], p);
      std::fill_n(grad, p.classes, counts ? T(0) : of_no_class<T>(labels[row], p));
      if (counts) grad[labels[row]] = -scale(row);
    }
  });
}

template <class T>
kernels::Loss<T> table() {
  return {.cross_entropy = cross_entropy<T>,
          .cross_entropy_backward = kernels::gradient<cross_entropy_backward<T>>(),
          .nll = nll<T>,
          .nll_backward = kernels::gradient<nll_backward<T>>(),
          .mse = pointwise<SquaredError, T>,
          .mse_backward = kernels::gradient<pointwise_backward<SquaredError, T>>(),
          .mae = pointwise<AbsoluteError, T>,
          .mae_backward = kernels::gradient<pointwise_backward<AbsoluteError, T>>(),
          .binary_cross_entropy_with_logits = pointwise<LogitsCrossEntropy, T>,
          .binary_cross_entropy_with_logits_backward = kernels::gradient<pointwise_backward<LogitsCrossEntropy, T>>(),
          .hinge = pointwise<Hinge, T>,
          .hinge_backward = kernels::gradient<pointwise_backward<Hinge, T>>()};
}

}  // namespace

kernels::Loss<float> loss_float() { return table<float>(); }
kernels::Loss<double> loss_double() { return table<double>(); }

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(loss, loss)

}  // namespace tern::vectorized
#endif
