// Transposed copies, compiled once per instruction set: include it after hwy/highway.h (see targets.hpp).

#if defined(TERN_VECTORIZED_TURN_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_TURN_HPP
#undef TERN_VECTORIZED_TURN_HPP
#else
#define TERN_VECTORIZED_TURN_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// in [rows, columns] of which a transposed copy goes to out. Where `saved` is not null, elements whose counterpart
/// there is 0 or less become 0: the gradient of relu on the way.
template <class T>
struct Turn {
  T* out;
  std::int64_t out_row;
  const T* in;
  std::int64_t in_row;
  const T* saved = nullptr;

  Turn at(std::int64_t row, std::int64_t column) const {
    const std::int64_t from = row * in_row + column;
    return {out + column * out_row + row, out_row, in + from, in_row, saved == nullptr ? nullptr : saved + from};
  }
  HWY_INLINE void element() const { *out = saved != nullptr && *saved <= T{0} ? T{0} : *in; }
};

#if HWY_TARGET != HWY_SCALAR
/// A vector of 128-bit blocks, block i from in + i * step.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* in, std::int64_t step) {
  constexpr std::size_t blocks = hn::MaxLanes(D()) * sizeof(T) / 16;
  if constexpr (blocks <= 1) {
    return hn::LoadU(d, in);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, in + static_cast<std::int64_t>(blocks / 2) * step, step),
                       load_blocks(half, in, step));
  }
}

/// As many rows as D has lanes, as many columns as a 128-bit block has elements.
template <bool masked, class D, class T = hn::TFromD<D>>
HWY_INLINE void turn_block(D d, const Turn<T>& turn) {
  constexpr std::int64_t side = 16 / sizeof(T);
  const auto row = [&](std::int64_t i) HWY_ATTR {
    const auto value = load_blocks(d, turn.in + i * turn.in_row, side * turn.in_row);
    if constexpr (!masked) return value;
    return hn::IfThenZeroElse(hn::Le(load_blocks(d, turn.saved + i * turn.in_row, side * turn.in_row), hn::Zero(d)),
                              value);
  };
  if constexpr (sizeof(T) == 4) {
    const hn::Repartition<double, D> pair;
    const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
    const auto low01 = hn::BitCast(pair, hn::InterleaveLower(d, r0, r1)),
               low23 = hn::BitCast(pair, hn::InterleaveLower(d, r2, r3)),
               high01 = hn::BitCast(pair, hn::InterleaveUpper(d, r0, r1)),
               high23 = hn::BitCast(pair, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pair, low01, low23)), d, turn.out);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pair, low01, low23)), d, turn.out + turn.out_row);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pair, high01, high23)), d, turn.out + 2 * turn.out_row);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pair, high01, high23)), d, turn.out + 3 * turn.out_row);
  } else {
    const auto r0 = row(0), r1 = row(1);
    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, turn.out);
    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, turn.out + turn.out_row);
  }
}

/// Rows in vectors of D, the last one overlapping the one before; shorter vectors where there are not enough rows.
template <bool masked, class D, class T = hn::TFromD<D>>
HWY_INLINE bool turn_strips(D d, const Turn<T>& turn, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t side = 16 / sizeof(T), lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  if (rows < lanes) {
    if constexpr (lanes > side) return turn_strips<masked>(hn::Half<D>(), turn, rows, columns);
    return false;
  }
  for (std::int64_t row = 0; row < rows; row += lanes)
    for (std::int64_t column = 0; column < columns; column += side)
      turn_block<masked>(d, turn.at(std::min(row, rows - lanes), std::min(column, columns - side)));
  return true;
}
#endif

template <class T>
HWY_NOINLINE void turn(const Turn<T>& turn, std::int64_t rows, std::int64_t columns) {
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  if (columns >= static_cast<std::int64_t>(16 / sizeof(T)) &&
      (turn.saved == nullptr ? turn_strips<false>(d, turn, rows, columns) : turn_strips<true>(d, turn, rows, columns)))
    return;
#endif
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) turn.at(i, j).element();
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
