// Largest and smallest elements and their positions; compiled once per instruction set (see targets.hpp).

#if defined(TERN_VECTORIZED_EXTREMES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_EXTREMES_HPP
#undef TERN_VECTORIZED_EXTREMES_HPP
#else
#define TERN_VECTORIZED_EXTREMES_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Larger {
  template <class V>
  HWY_INLINE auto better(V a, V b) const {
    return hn::Gt(a, b);
  }
  template <class V>
  HWY_INLINE V of(V a, V b) const {
    return larger(a, b);
  }
  template <class D, class V>
  HWY_INLINE V of_lanes(D d, V v) const {
    return largest_lane(d, v);
  }
  template <class T>
  bool replaces(T challenger, T best) const {
    return challenger > best || (std::isnan(challenger) && !std::isnan(best));
  }
};
struct Smaller {
  template <class V>
  HWY_INLINE auto better(V a, V b) const {
    return hn::Lt(a, b);
  }
  template <class V>
  HWY_INLINE V of(V a, V b) const {
    return smaller(a, b);
  }
  template <class D, class V>
  HWY_INLINE V of_lanes(D d, V v) const {
    return smallest_lane(d, v);
  }
  template <class T>
  bool replaces(T challenger, T best) const {
    return challenger < best || (std::isnan(challenger) && !std::isnan(best));
  }
};

/// The position of the first lane for which `wanted` holds; there is one in [0, n).
template <class T, class Wanted>
HWY_INLINE std::int64_t find_first(const T* in, std::int64_t n, const Wanted& wanted) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto found = wanted(d, hn::LoadU(d, in + i));
    if (!hn::AllFalse(d, found)) return i + static_cast<std::int64_t>(hn::FindFirstTrue(d, found));
  }
  return i + static_cast<std::int64_t>(hn::FindFirstTrue(d, wanted(d, load_first(d, in + i, n - i))));
}

template <class T>
struct EqualTo {
  T value;
  template <class D, class V>
  HWY_INLINE auto operator()(D d, V v) const {
    return hn::Eq(v, hn::Set(d, value));
  }
};
struct NotANumber {
  template <class D, class V>
  HWY_INLINE auto operator()(D /*d*/, V v) const {
    return hn::IsNaN(v);
  }
};

/// The position of the extreme of n > 0 contiguous elements: one pass for the value, a second, shorter one for the
/// position.
template <class Choice, class T>
HWY_NOINLINE std::int64_t extreme_of_row(const T* in, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Choice choice;
  const auto first = hn::Set(d, in[0]);
  auto best0 = first, best1 = first;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    best0 = choice.of(best0, hn::LoadU(d, in + i));
    best1 = choice.of(best1, hn::LoadU(d, in + i + lanes));
  }
  for (; i < n; i += lanes) {
    auto value = load_columns(d, in + i, n - i);
    if (n - i < lanes) value = hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(n - i)), value, first);
    best0 = choice.of(best0, value);
  }
  const auto best = choice.of(best0, best1);
  if (!hn::AllFalse(d, hn::IsNaN(best))) return find_first(in, n, NotANumber{});
  return find_first(in, n, EqualTo<T>{hn::GetLane(choice.of_lanes(d, best))});
}

/// The extremes of up to a vector of columns. Positions are counted in lanes as wide as T, hence the blocks.
template <class Choice, class T>
HWY_NOINLINE void extreme_of_columns(T* out, std::int64_t* index, const T* in, std::int64_t length, std::int64_t inner,
                                     std::int64_t columns) {
  constexpr std::int64_t block = std::int64_t{1} << 30;
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> positions;
  using Signed = hn::TFromD<decltype(positions)>;
  const Choice choice;
  HWY_ALIGN T best_value[hn::MaxLanes(d)];
  HWY_ALIGN Signed best_position[hn::MaxLanes(d)];
  columns = std::min(columns, static_cast<std::int64_t>(hn::Lanes(d)));
  for (std::int64_t start = 0; start < length; start += block) {
    const std::int64_t rows = std::min(block, length - start);
    const T* from = in + start * inner;
    auto best = load_columns(d, from, columns);
    auto where = hn::Zero(positions);
    for (std::int64_t r = 1; r < rows; ++r) {
      const auto value = load_columns(d, from + r * inner, columns);
      const auto replaces = hn::Or(choice.better(value, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(value)));
      best = hn::IfThenElse(replaces, value, best);
      where = hn::IfThenElse(hn::RebindMask(positions, replaces), hn::Set(positions, static_cast<Signed>(r)), where);
    }
    hn::Store(best, d, best_value);
    hn::Store(where, positions, best_position);
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t position = start + static_cast<std::int64_t>(best_position[c]);
      if (start > 0 && !choice.replaces(best_value[c], in[index[c] * inner + c])) continue;
      if (out != nullptr) out[c] = best_value[c];
      if (index != nullptr) index[c] = position;
    }
  }
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
