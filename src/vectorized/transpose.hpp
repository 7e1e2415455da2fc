// Transposed copies, compiled once per instruction set: include it after hwy/highway.h (see targets.hpp).

#if defined(TERN_VECTORIZED_TRANSPOSE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_TRANSPOSE_HPP
#undef TERN_VECTORIZED_TRANSPOSE_HPP
#else
#define TERN_VECTORIZED_TRANSPOSE_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "vectorized/ranges.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void transpose_block(D d, T* out, std::int64_t out_row, const T* in, std::int64_t in_row) {
  constexpr std::int64_t side = 16 / sizeof(T);
  const auto row = [&](std::int64_t i) HWY_ATTR { return load_blocks(d, in + i * in_row, side * in_row); };
  if constexpr (sizeof(T) == 4) {
    const hn::Repartition<double, D> pair;
    const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
    const auto low01 = hn::BitCast(pair, hn::InterleaveLower(d, r0, r1)),
               low23 = hn::BitCast(pair, hn::InterleaveLower(d, r2, r3)),
               high01 = hn::BitCast(pair, hn::InterleaveUpper(d, r0, r1)),
               high23 = hn::BitCast(pair, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pair, low01, low23)), d, out);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pair, low01, low23)), d, out + out_row);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pair, high01, high23)), d, out + 2 * out_row);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pair, high01, high23)), d, out + 3 * out_row);
  } else {
    const auto r0 = row(0), r1 = row(1);
    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, out);
    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, out + out_row);
  }
}

/// Rows in vectors of D, the last one overlapping the previous one; shorter vectors if there are not enough rows.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE bool transpose_strips(D d, Pitched<T> out, Pitched<const T> in, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t side = 16 / sizeof(T), lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  if (rows < lanes) {
    if constexpr (lanes > side) return transpose_strips(hn::Half<D>(), out, in, rows, columns);
    return false;
  }
  for (std::int64_t r = 0; r < rows; r += lanes)
    for (std::int64_t c = 0; c < columns; c += side) {
      const std::int64_t row = std::min(r, rows - lanes), column = std::min(c, columns - side);
      transpose_block(d, out.row(column) + row, out.pitch, in.row(row) + column, in.pitch);
    }
  return true;
}
#endif

/// out [columns, rows] = in [rows, columns]^T.
template <class T>
HWY_NOINLINE void transpose(T* out, std::int64_t out_row, const T* in, std::int64_t in_row, std::int64_t rows,
                            std::int64_t columns) {
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  if (columns >= static_cast<std::int64_t>(16 / sizeof(T)) &&
      transpose_strips(d, Pitched<T>{out, out_row}, Pitched<const T>{in, in_row}, rows, columns))
    return;
#endif
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) out[j * out_row + i] = in[i * in_row + j];
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
