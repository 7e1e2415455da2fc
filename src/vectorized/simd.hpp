// Loops over contiguous arrays, compiled once per instruction set: include it after hwy/highway.h (see targets.hpp).
// The rest of an array that fills no vector goes through the same vector code, so a value does not depend on its
// position.

#if defined(TERN_VECTORIZED_SIMD_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_SIMD_HPP
#undef TERN_VECTORIZED_SIMD_HPP
#else
#define TERN_VECTORIZED_SIMD_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "vectorized/parallel.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// True if masked loads and stores of 4 and 8 byte elements exist and touch nothing outside the mask.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
inline constexpr bool has_masked_memory = true;
#else
inline constexpr bool has_masked_memory = false;
#endif

/// The first `count` elements, then zeros; count < lanes.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* from, std::int64_t count) {
  if constexpr (has_masked_memory && sizeof(T) >= 4) {
    return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, from);
  } else {
    HWY_ALIGN T buffer[hn::MaxLanes(D{})] = {};
    std::memcpy(buffer, from, static_cast<std::size_t>(count) * sizeof(T));
    return hn::Load(d, buffer);
  }
}

/// Writes the first `count` lanes; count < lanes.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(hn::Vec<D> value, D d, T* to, std::int64_t count) {
  if constexpr (has_masked_memory && sizeof(T) >= 4) {
    hn::BlendedStore(value, hn::FirstN(d, static_cast<std::size_t>(count)), d, to);
  } else {
    HWY_ALIGN T buffer[hn::MaxLanes(D{})];
    hn::Store(value, d, buffer);
    std::memcpy(to, buffer, static_cast<std::size_t>(count) * sizeof(T));
  }
}

/// out[i] = op(in[i]...) for i in [0, n); `out` may be an input. The last vector overlaps the one before it, because a
/// part of a vector is slow to store; it is computed before that one is stored.
template <class Op, class T, class... In>
HWY_NOINLINE void map(const Op& op, T* out, std::int64_t n, const In*... in) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (n < lanes) {
    if (n > 0) store_first(op(d, load_first(d, in, n)...), d, out, n);
    return;
  }
  const std::int64_t last = n - lanes;
  const auto end = op(d, hn::LoadU(d, in + last)...);
  for (std::int64_t i = 0; i < last; i += lanes) hn::StoreU(op(d, hn::LoadU(d, in + i)...), d, out + i);
  hn::StoreU(end, d, out + last);
}

/// `map` over the threads; `nanoseconds` is the cost of one element (see parallel_for).
template <class Op, class T, class... In>
HWY_INLINE void map_parallel(const Context& context, double nanoseconds, const Op& op, T* out, std::int64_t n,
                             const In*... in) {
  if (useful_threads(context, static_cast<double>(n) * nanoseconds) == 1) {
    map(op, out, n, in...);
  } else {
    parallel_for(context, n, nanoseconds, [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
      map(op, out + begin, end - begin, (in + begin)...);
    });
  }
}

/// Sum of op(in[i]...) over i in [0, n), in an order fixed by n.
template <class Op, class T, class... In>
HWY_INLINE T map_sum(const Op& op, std::int64_t n, const T* first, const In*... in) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Add(sum0, op(d, hn::LoadU(d, first + i), hn::LoadU(d, in + i)...));
    sum1 = hn::Add(sum1, op(d, hn::LoadU(d, first + i + lanes), hn::LoadU(d, in + i + lanes)...));
    sum2 = hn::Add(sum2, op(d, hn::LoadU(d, first + i + 2 * lanes), hn::LoadU(d, in + i + 2 * lanes)...));
    sum3 = hn::Add(sum3, op(d, hn::LoadU(d, first + i + 3 * lanes), hn::LoadU(d, in + i + 3 * lanes)...));
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::Add(sum0, op(d, hn::LoadU(d, first + i), hn::LoadU(d, in + i)...));
  if (i < n) {
    const auto rest = op(d, load_first(d, first + i, n - i), load_first(d, in + i, n - i)...);
    sum1 = hn::Add(sum1, hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(n - i)), rest));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

/// Relu, relu6: from 0 up to `top`. Keeps NaN and zeros.
template <class D, class V>
HWY_INLINE V clipped(D d, V value, V top) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE2 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  // Two instructions, which take their second operand if one is NaN or both are zeros.
  return hn::Min(top, hn::Max(hn::Zero(d), value));
#else
  value = hn::IfThenZeroElse(hn::Lt(value, hn::Zero(d)), value);
  return hn::IfThenElse(hn::Gt(value, top), top, value);
#endif
}

/// The larger element; NaN if either is.
template <class V>
HWY_INLINE V larger(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
}
/// The smaller element; NaN if either is.
template <class V>
HWY_INLINE V smaller(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
}

/// The largest and the smallest lane, in all lanes. Highway's emulated vectors have no infinity there: they start at
/// the outermost finite number.
template <class D>
HWY_INLINE hn::Vec<D> largest_lane(D d, hn::Vec<D> v) {
#if HWY_TARGET == HWY_EMU128
  auto largest = hn::GetLane(v);
  for (std::size_t i = 1; i < hn::Lanes(d); ++i) largest = std::max(largest, hn::ExtractLane(v, i));
  return hn::Set(d, largest);
#else
  return hn::MaxOfLanes(d, v);
#endif
}
template <class D>
HWY_INLINE hn::Vec<D> smallest_lane(D d, hn::Vec<D> v) {
#if HWY_TARGET == HWY_EMU128
  auto smallest = hn::GetLane(v);
  for (std::size_t i = 1; i < hn::Lanes(d); ++i) smallest = std::min(smallest, hn::ExtractLane(v, i));
  return hn::Set(d, smallest);
#else
  return hn::MinOfLanes(d, v);
#endif
}

/// The largest of n > 0 elements; unspecified if one is NaN.
template <class T>
HWY_INLINE T array_max(const T* in, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto best0 = lowest, best1 = lowest;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    best0 = hn::Max(best0, hn::LoadU(d, in + i));
    best1 = hn::Max(best1, hn::LoadU(d, in + i + lanes));
  }
  for (; i + lanes <= n; i += lanes) best0 = hn::Max(best0, hn::LoadU(d, in + i));
  if (i < n) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(n - i));
    best1 = hn::Max(best1, hn::IfThenElse(mask, load_first(d, in + i, n - i), lowest));
  }
  return hn::GetLane(largest_lane(d, hn::Max(best0, best1)));
}

/// A vector of `count` columns from `in`, all lanes if that many are left.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_columns(D d, const T* in, std::int64_t count) {
  return count >= static_cast<std::int64_t>(hn::Lanes(d)) ? hn::LoadU(d, in) : load_first(d, in, count);
}
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_columns(hn::Vec<D> value, D d, T* out, std::int64_t count) {
  if (count >= static_cast<std::int64_t>(hn::Lanes(d)))
    hn::StoreU(value, d, out);
  else
    store_first(value, d, out, count);
}

/// From 0 up to `top`, as an operation of map. Keeps NaN.
template <class T>
struct Clip {
  T top;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    value = hn::IfThenZeroElse(hn::Le(value, hn::Zero(d)), value);
    return hn::IfThenElse(hn::Gt(value, hn::Set(d, top)), hn::Set(d, top), value);
  }
};

/// The identity, as an operation of map_sum.
struct Same {
  template <class D, class V>
  HWY_INLINE V operator()(D /*d*/, V value) const {
    return value;
  }
};

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
