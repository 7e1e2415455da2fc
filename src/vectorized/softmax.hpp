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

/// out = exp(in - shift) for the whole vectors among the n elements of a row, of which none is above `shift`; returns
/// the sum of each lane. `out` may be `in`. In two steps, each of several vectors: the processor sees too few
/// instructions at once to overlap whole exponentials.
template <bool stores, class T, class V>
HWY_INLINE V exp_vectors(T* out, const T* in, std::int64_t n, V shift) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t together = 8, most_lanes = hn::MaxLanes(d);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V lowest = hn::Set(d, -ExpNumbers<T>::ordinary);
  HWY_ALIGN T remainders[together * most_lanes], exponents[together * most_lanes];
  V sum = hn::Zero(d);
  for (std::int64_t first = 0; first + lanes <= n; first += together * lanes) {
    const std::int64_t count = std::min(together * lanes, (n - first) / lanes * lanes);
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
    if constexpr (stores)  // the next row's elements: exponentials leave memory idle
      for (std::int64_t i = 0; i < together * lanes; i += 64 / static_cast<std::int64_t>(sizeof(T))) {
        __builtin_prefetch(out + n + first + i, 1);
        __builtin_prefetch(in + n + first + i);
      }
#endif
    auto ordinary = hn::Eq(lowest, lowest);
    for (std::int64_t i = 0; i < count; i += lanes) {
      const V x = hn::Sub(hn::LoadU(d, in + first + i), shift);
      ordinary = hn::And(ordinary, hn::Ge(x, lowest));
      V shifted;
      hn::Store(exp_remainder(d, x, shifted), d, remainders + i);
      hn::Store(shifted, d, exponents + i);
    }
    const bool all = hn::AllTrue(d, ordinary);
    for (std::int64_t i = 0; i < count; i += lanes) {
      const V value = all ? exp_of_parts(d, hn::Load(d, remainders + i), hn::Load(d, exponents + i))
                          : HWY_NAMESPACE::exp(d, hn::Sub(hn::LoadU(d, in + first + i), shift));
      if constexpr (stores) hn::StoreU(value, d, out + first + i);
      sum = hn::Add(sum, value);
    }
  }
  return sum;
}

/// The exponentials of a row of more than a vector's elements, in `out` but for the last ones: they are the end of
/// `last`, a vector that overlaps the one before it, because a part of a vector is slow to store.
template <class T>
struct RaisedRow {
  T* out;
  std::int64_t n;
  hn::Vec<hn::ScalableTag<T>> last;
  RowSum<T> row;

  HWY_INLINE RaisedRow(T* to, const T* in, std::int64_t count, T maximum) : out(to), n(count) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d)), rest = n % lanes;
    const auto shift = hn::Set(d, maximum);
    last = hn::Sub(hn::LoadU(d, in + n - lanes), shift);
    auto sum = exp_vectors<true>(out, in, n, shift);
    if (rest > 0) {
      last = HWY_NAMESPACE::exp(d, last);
      sum = hn::Add(sum, hn::IfThenZeroElse(hn::FirstN(d, static_cast<std::size_t>(lanes - rest)), last));
    }
    row = {maximum, hn::GetLane(hn::SumOfLanes(d, sum))};
  }
  HWY_INLINE void scale() const {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto factor = hn::Set(d, T(1) / row.sum);
    for (std::int64_t i = 0; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, out + i), factor), d, out + i);
    if (n % lanes > 0) hn::StoreU(hn::Mul(last, factor), d, out + n - lanes);
  }
};

/// out = softmax(in) for one row of 0 < n <= lanes elements.
template <class T>
HWY_INLINE RowSum<T> softmax_vector(T* out, const T* in, std::int64_t n) {
  const hn::ScalableTag<T> d;
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

/// out = softmax(in) for one row of n > 0 elements. `out` may be `in`.
template <class T>
HWY_NOINLINE RowSum<T> softmax_row(T* out, const T* in, std::int64_t n) {
  if (n <= static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()))) return softmax_vector(out, in, n);
  const RaisedRow<T> raised(out, in, n, array_max(in, n));
  raised.scale();
  return raised.row;
}

/// The same for some rows. In a short row each step waits for the one before: the next one's maximum is found, and the
/// previous one is scaled, beside a row's exponentials.
template <class T>
HWY_NOINLINE void softmax_rows(T* out, const T* in, std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t most = 256;
  if (rows == 0) return;
  if (n > most || n <= static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()))) {
    for (std::int64_t row = 0; row < rows; ++row) softmax_row(out + row * n, in + row * n, n);
    return;
  }
  RaisedRow<T> raised(out, in, n, array_max(in, n));
  T maximum = rows > 1 ? array_max(in + n, n) : T(0);
  for (std::int64_t row = 1; row < rows; ++row) {
    const T next = row + 1 < rows ? array_max(in + (row + 1) * n, n) : T(0);
    const RaisedRow<T> here(out + row * n, in + row * n, n, maximum);
    raised.scale();
    raised = here;
    maximum = next;
  }
  raised.scale();
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
