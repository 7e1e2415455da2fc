// Reductions: sums are axis_sum.hpp's, the largest and smallest elements extremes.hpp's. Threads divide blocks whose
// cuts depend only on the shape.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/reduction.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gradient.hpp"
#include "vectorized/axis_sum.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/extremes.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::Axis;

constexpr double streamed = 0.15;  // rough cost of one element in nanoseconds

double work(const Axis& axis) {
  return streamed * static_cast<double>(axis.outer) * static_cast<double>(axis.length) *
         static_cast<double>(axis.inner);
}

template <class T>
void sum_over(Context& context, T* out, const T* in, const Axis& axis, T divisor) {
  using Sum = AxisSum<Value, T>;
  const Scratch partial(context, Sum::partial_bytes(axis));
  const Sum sum(out, partial.as<T>(), in, nullptr, axis, divisor);
  parallel_phases(useful_threads(context, work(axis)), Sum::phases(axis),
                  [&](const Team& team, int phase) { sum.run(team, phase); });
}

/// length - correction, NaN if that is not positive.
template <class T>
T degrees_of_freedom(const Axis& axis, std::int64_t correction) {
  return axis.length > correction ? static_cast<T>(axis.length - correction) : std::numeric_limits<T>::quiet_NaN();
}

/// scale * grad * (in - mean) for a row or for columns.
template <class T>
struct DeviationGradient {
  T scale;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V in, V grad, V mean) const {
    return hn::Mul(hn::Mul(grad, hn::Set(d, scale)), hn::Sub(in, mean));
  }
};
template <class T>
struct RowDeviationGradient {
  T factor, mean;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V in) const {
    return hn::Mul(hn::Set(d, factor), hn::Sub(in, hn::Set(d, mean)));
  }
};

template <class Choice, class T>
void extreme(Context& context, T* out, std::int64_t* index, const T* in, const Axis& axis) {
  if (axis.inner == 1) {
    const std::int64_t blocks = block_count(axis.length);
    const Scratch scratch(context,
                          blocks == 1 ? 0 : static_cast<std::size_t>(axis.outer * blocks) * sizeof(std::int64_t));
    auto* position = scratch.as<std::int64_t>();  // the winner of each block, in its row
    const auto put = [=](std::int64_t row, std::int64_t where) {
      if (out != nullptr) out[row] = in[row * axis.length + where];
      if (index != nullptr) index[row] = where;
    };
    const double cost = 2 * streamed * static_cast<double>(std::min(sum_block, axis.length));
    parallel_for(context, axis.outer * blocks, cost, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t row = item / blocks, first = item % blocks * sum_block;
        const T* from = in + row * axis.length + first;
        const std::int64_t where = first + extreme_of_row<Choice>(from, std::min(sum_block, axis.length - first));
        if (blocks == 1)
          put(row, where);
        else
          position[item] = where;
      }
    });
    if (blocks == 1) return;
    for (std::int64_t row = 0; row < axis.outer; ++row) {
      const T* from = in + row * axis.length;
      std::int64_t best = position[row * blocks];
      for (std::int64_t i = 1; i < blocks; ++i)
        if (Choice{}.replaces(from[position[row * blocks + i]], from[best])) best = position[row * blocks + i];
      put(row, best);
    }
    return;
  }
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t groups = (axis.inner + lanes - 1) / lanes;
  const double cost = 3 * streamed * static_cast<double>(axis.length * std::min(lanes, axis.inner));
  parallel_for(context, axis.outer * groups, cost, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t outer = item / groups, column = item % groups * lanes;
      const std::int64_t at = outer * axis.inner + column;
      std::int64_t positions[hn::MaxLanes(d)];
      extreme_of_columns<Choice>(out == nullptr ? nullptr : out + at, index == nullptr ? positions : index + at,
                                 in + outer * axis.length * axis.inner + column, axis.length, axis.inner,
                                 axis.inner - column);
    }
  });
}

// ---- the slots -----------------------------------------------------------------------------------------------------

template <class T>
void sum(Context& context, T* out, const T* in, const Axis& axis) {
  sum_over(context, out, in, axis, T(1));
}

template <class T>
void mean(Context& context, T* out, const T* in, const Axis& axis) {
  sum_over(context, out, in, axis, static_cast<T>(axis.length));
}

/// Whether the rounding of a mean affects the variance around it.
template <class T>
bool is_far(T mean, T variance) {
  return mean * mean > T(1 << 17) * variance;
}

/// The variance around the true mean, from that around a rounded one, which is off by `deviation`.
template <class T>
T corrected(T variance, T deviation, T length, T freedom) {
  const T result = variance - deviation * deviation * (length / freedom);
  return result < T(0) ? T(0) : result;
}

/// Variances whose squares leave T's range: in double.
template <class T>
void exact_variances(T* out, const T* in, const Axis& axis, std::int64_t correction) {
  for (std::int64_t i = 0; i < axis.outer * axis.inner; ++i) {
    if (std::isfinite(out[i]) || axis.length <= correction) continue;
    const T* const from = in + i / axis.inner * axis.length * axis.inner + i % axis.inner;
    const auto mean_over = [&](double length, const auto& value) {
      double sum = 0;
      for (std::int64_t k = 0; k < axis.length; ++k) sum += value(static_cast<double>(from[k * axis.inner]));
      return sum / length;
    };
    const double mean = mean_over(static_cast<double>(axis.length), [](double value) { return value; });
    out[i] = static_cast<T>(mean_over(static_cast<double>(axis.length - correction),
                                      [&](double value) { return (value - mean) * (value - mean); }));
  }
}

template <class T>
void var(Context& context, T* out, const T* in, const Axis& axis, std::int64_t correction) {
  const T freedom = degrees_of_freedom<T>(axis, correction), length = static_cast<T>(axis.length);
  const int threads = useful_threads(context, 2 * work(axis));
  if (axis.inner == 1 && axis.length <= sum_block) {  // all of it while the row is in the cache
    parallel(threads, [&](const Team& team) {
      for (std::int64_t row = team.begin(axis.outer); row < team.end(axis.outer); ++row) {
        const T* from = in + row * axis.length;
        const T center = row_sum<Value>(from, axis.length, T(0)) / length;
        out[row] = row_sum<SquaredDeviation>(from, axis.length, center) / freedom;
        if (is_far(center, out[row]))
          out[row] = corrected(out[row], row_sum<Deviation>(from, axis.length, center) / length, length, freedom);
      }
    });
    return exact_variances(out, in, axis, correction);
  }
  const std::int64_t results = axis.outer * axis.inner;
  using Mean = AxisSum<Value, T>;
  const Scratch partial(context, Mean::partial_bytes(axis));
  const Scratch two(context, static_cast<std::size_t>(2 * results) * sizeof(T));
  T *const centers = two.as<T>(), *const means = centers + results;
  const Mean mean(centers, partial.as<T>(), in, nullptr, axis, length);
  const AxisSum<SquaredDeviation, T> squares(out, partial.as<T>(), in, centers, axis, freedom);
  const int phases = Mean::phases(axis);
  parallel_phases(threads, 2 * phases, [&](const Team& team, int phase) {
    if (phase < phases)
      mean.run(team, phase);
    else
      squares.run(team, phase - phases);
  });
  bool far = false;
  for (std::int64_t i = 0; i < results; ++i) far |= is_far(centers[i], out[i]);
  if (!far) return exact_variances(out, in, axis, correction);
  const AxisSum<Deviation, T> deviations(means, partial.as<T>(), in, centers, axis, length);
  parallel_phases(threads, phases, [&](const Team& team, int phase) { deviations.run(team, phase); });
  for (std::int64_t i = 0; i < results; ++i)
    if (is_far(centers[i], out[i])) out[i] = corrected(out[i], means[i], length, freedom);
  exact_variances(out, in, axis, correction);
}

template <class T>
void var_backward(Context& context, T* grad_in, const T* grad_out, const T* in, const Axis& axis,
                  std::int64_t correction) {
  const T scale = T(2) / degrees_of_freedom<T>(axis, correction), length = static_cast<T>(axis.length);
  const std::int64_t results = axis.outer * axis.inner;
  if (results * axis.length <= 0) return;
  const Scratch means(context, static_cast<std::size_t>(results) * sizeof(T));
  using Mean = AxisSum<Value, T>;
  const Scratch partial(context, Mean::partial_bytes(axis));
  const T* const mean = means.as<T>();
  const Mean sum(means.as<T>(), partial.as<T>(), in, nullptr, axis, length);
  const int phases = Mean::phases(axis);
  parallel_phases(useful_threads(context, 3 * work(axis)), phases + 1, [&](const Team& team, int phase) HWY_ATTR {
    if (phase < phases) return sum.run(team, phase);
    if (axis.inner == 1) {
      const std::int64_t blocks = block_count(axis.length), items = axis.outer * blocks;
      for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
        const std::int64_t row = item / blocks, first = item % blocks * sum_block;
        const std::int64_t at = row * axis.length + first, n = std::min(sum_block, axis.length - first);
        map(RowDeviationGradient<T>{grad_out[row] * scale, mean[row]}, grad_in + at, n, in + at);
      }
    } else {
      const std::int64_t items = axis.outer * axis.length;
      for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
        const std::int64_t at = item * axis.inner, outer = item / axis.length * axis.inner;
        map(DeviationGradient<T>{scale}, grad_in + at, axis.inner, in + at, grad_out + outer, mean + outer);
      }
    }
  });
}

template <class T>
void extreme_backward(Context& context, T* grad_in, const T* grad_out, const std::int64_t* index, const Axis& axis) {
  const std::int64_t elements = axis.outer * axis.length * axis.inner, results = axis.outer * axis.inner;
  if (elements <= 0) return;
  parallel_phases(useful_threads(context, work(axis)), 2, [&](const Team& team, int phase) {
    if (phase == 0) return std::fill(grad_in + team.begin(elements, 16), grad_in + team.end(elements, 16), T(0));
    for (std::int64_t i = team.begin(results); i < team.end(results); ++i)
      grad_in[(i / axis.inner * axis.length + index[i]) * axis.inner + i % axis.inner] = grad_out[i];
  });
}

template <class T>
kernels::Reduction<T> table() {
  return {.sum = sum<T>,
          .mean = mean<T>,
          .var = var<T>,
          .var_backward = kernels::gradient<var_backward<T>>(),
          .max = extreme<Larger, T>,
          .min = extreme<Smaller, T>,
          .extreme_backward = kernels::gradient<extreme_backward<T>>()};
}

}  // namespace

kernels::Reduction<float> reduction_float() { return table<float>(); }
kernels::Reduction<double> reduction_double() { return table<double>(); }

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(reduction, reduction)

}  // namespace tern::vectorized
#endif
