// Sums run in double, here and wherever this mode adds many elements: a reference whose rounding grows with the length
// could not judge modes that split their sums.

#include <cmath>
#include <functional>
#include <limits>

#include "functions.hpp"
#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::Axis;

template <class T>
double sum_of(const T* in, const Axis& axis, std::int64_t start) {
  double total = 0;
  for (std::int64_t j = 0; j < axis.length; ++j) total += load(in[start + j * axis.inner]);
  return total;
}

template <class T>
double mean_of(const T* in, const Axis& axis, std::int64_t start) {
  return sum_of(in, axis, start) / static_cast<double>(axis.length);  // 0 / 0, NaN, for no elements
}

template <class T>
void sum(Context&, T* out, const T* in, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t line, std::int64_t start) { out[line] = store<T>(sum_of(in, axis, start)); });
}

template <class T>
void mean(Context&, T* out, const T* in, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t line, std::int64_t start) { out[line] = store<T>(mean_of(in, axis, start)); });
}

/// The mean relative to the first element: exact if all are equal.
template <class T>
double center_of(const T* in, const Axis& axis, std::int64_t start) {
  if (axis.length == 0) return mean_of(in, axis, start);
  const double first = load(in[start]);
  double total = 0;
  for (std::int64_t j = 0; j < axis.length; ++j) total += load(in[start + j * axis.inner]) - first;
  const double center = first + total / static_cast<double>(axis.length);
  return std::isfinite(center) ? center : mean_of(in, axis, start);
}

/// The divisor of a variance.
double degrees_of_freedom(const Axis& axis, std::int64_t correction) {
  return axis.length > correction ? static_cast<double>(axis.length - correction)
                                  : std::numeric_limits<double>::quiet_NaN();
}

template <class T>
void var(Context&, T* out, const T* in, const Axis& axis, std::int64_t correction) {
  for_each_line(axis, [&](std::int64_t line, std::int64_t start) {
    const double center = center_of(in, axis, start);
    double squares = 0;
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const double deviation = load(in[start + j * axis.inner]) - center;
      squares += deviation * deviation;
    }
    out[line] = store<T>(squares / degrees_of_freedom(axis, correction));
  });
}

template <class T>
void var_backward(Context&, T* grad_in, const T* grad_out, const T* in, const Axis& axis, std::int64_t correction) {
  for_each_line(axis, [&](std::int64_t line, std::int64_t start) {
    const double center = center_of(in, axis, start);
    for (std::int64_t j = 0; j < axis.length; ++j) {
      const std::int64_t i = start + j * axis.inner;
      grad_in[i] = store<T>(load(grad_out[line]) * 2 * (load(in[i]) - center) / degrees_of_freedom(axis, correction));
    }
  });
}

template <class Better, class T>
void extreme(Context&, T* out, std::int64_t* index, const T* in, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t line, std::int64_t start) {
    std::int64_t winner = 0;
    for (std::int64_t j = 1; j < axis.length; ++j)
      if (wins(load(in[start + j * axis.inner]), load(in[start + winner * axis.inner]), Better{})) winner = j;
    if (out != nullptr) out[line] = in[start + winner * axis.inner];
    if (index != nullptr) index[line] = winner;
  });
}

template <class T>
void extreme_backward(Context&, T* grad_in, const T* grad_out, const std::int64_t* index, const Axis& axis) {
  for_each_line(axis, [&](std::int64_t line, std::int64_t start) {
    for (std::int64_t j = 0; j < axis.length; ++j)
      grad_in[start + j * axis.inner] = j == index[line] ? grad_out[line] : store<T>(0);
  });
}

}  // namespace

template <class T>
kernels::Reduction<T> reduction() {
  return {.sum = sum<T>,
          .mean = mean<T>,
          .var = var<T>,
          .var_backward = var_backward<T>,
          .max = extreme<std::greater<>, T>,
          .min = extreme<std::less<>, T>,
          .extreme_backward = extreme_backward<T>};
}
template kernels::Reduction<float> reduction<float>();
template kernels::Reduction<double> reduction<double>();
template kernels::Reduction<BFloat16> reduction<BFloat16>();
template kernels::Reduction<Float16> reduction<Float16>();

}  // namespace tern::sequential
