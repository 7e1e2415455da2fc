// Softmax of one row, shared by the activations and the losses; compiled once per instruction set (see targets.hpp).

#if defined(TERN_VECTORIZED_SOFTMAX_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_SOFTMAX_HPP
#undef TERN_VECTORIZED_SOFTMAX_HPP
#else
#define TERN_VECTORIZED_SOFTMAX_HPP
#endif

#include <hwy/highway.h>

#include <limits>

#include "vectorized/math.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A row's maximum and sum(exp(in - maximum)), at least 1. A NaN or a row of -infinity alone makes the sum NaN.
template <class T>
struct RowSum {
  T maximum, sum;
};

/// out = exp(in - max) for one row of n > 0 elements.
template <class T>
HWY_INLINE RowSum<T> exp_row(T* out, const T* in, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T maximum = array_max(in, n);
  const auto shift = hn::Set(d, maximum);
  auto sum0 = hn::Zero(d), sum1 = sum0;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto value0 = HWY_NAMESPACE::exp(d, hn::Sub(hn::LoadU(d, in + i), shift));
    const auto value1 = HWY_NAMESPACE::exp(d, hn::Sub(hn::LoadU(d, in + i + lanes), shift));
    hn::StoreU(value0, d, out + i);
    hn::StoreU(value1, d, out + i + lanes);
    sum0 = hn::Add(sum0, value0);
    sum1 = hn::Add(sum1, value1);
  }
  for (; i < n; i += lanes) {
    const std::int64_t left = n - i;
    auto value = HWY_NAMESPACE::exp(d, hn::Sub(load_columns(d, in + i, left), shift));
    store_columns(value, d, out + i, left);
    if (left < lanes) value = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(left)), value);
    sum0 = hn::Add(sum0, value);
  }
  return {maximum, hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)))};
}

/// out = softmax(in) for one row of n > 0 elements. `out` may be `in`.
template <class T>
HWY_NOINLINE RowSum<T> softmax_row(T* out, const T* in, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (n <= lanes) {  // the row is one vector
    const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(n));
    const auto values = hn::IfThenElse(mask, load_columns(d, in, n), lowest);
    const auto maximum = largest_lane(d, values);
    const auto lowered = hn::IfThenElseZero(mask, hn::Sub(values, maximum));
    const auto raised = hn::IfThenElseZero(mask, HWY_NAMESPACE::exp(d, lowered));
    const auto sum = hn::SumOfLanes(d, raised);
    store_columns(hn::Div(raised, sum), d, out, n);
    return {hn::GetLane(maximum), hn::GetLane(sum)};
  }
  const RowSum<T> row = exp_row(out, in, n);
  const auto factor = hn::Set(d, T(1) / row.sum);
  for (std::int64_t i = 0; i < n; i += lanes)
    store_columns(hn::Mul(load_columns(d, out + i, n - i), factor), d, out + i, n - i);
  return row;
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
