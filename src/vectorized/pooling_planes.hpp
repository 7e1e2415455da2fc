// Rows of pooling outputs, channels first; compiled once per instruction set (see targets.hpp). Lanes are adjacent
// outputs of one row if no column is padding; the last vector of a row overlaps the previous one. Borders are computed
// one output at a time.

#if defined(TERN_VECTORIZED_POOLING_PLANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_POOLING_PLANES_HPP
#undef TERN_VECTORIZED_POOLING_PLANES_HPP
#else
#define TERN_VECTORIZED_POOLING_PLANES_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "vectorized/ranges.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/windows.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {

/// One row of outputs, for the vector and the scalar code.
template <class T>
struct Row {
  const T* plane;         ///< of the input
  const T* end;           ///< of the whole input
  std::int64_t origin_h;  ///< of the windows; negative in the padding
  KernelRows rows;
};

template <class T, template <class> class State>
struct MaxRow {
  T* out;
  std::uint8_t* index;

  template <class D>
  HWY_INLINE void vector(D d, const T* from, const Row<T>& row, std::int64_t ow, const Pool2d& p) const {
    State<D> state(d, row.rows.first * p.KW);
    if (p.stride_w == 1)
      visit_window<1>(d, from, row.rows, p, state);
    else if (p.stride_w == 2)
      visit_window<2>(d, from, row.rows, p, state);
    else
      visit_window<0>(d, from, row.rows, p, state);
    store(d, state, ow);
  }
  template <class D>
  HWY_INLINE void two_by_two(D d, const T* from, const Row<T>& /*row*/, std::int64_t ow, const Pool2d& p) const {
    State<D> state(d, 0);
    visit_two_by_two(d, from, p, state);
    store(d, state, ow);
  }
  void scalar(const Row<T>& row, std::int64_t ow, const Pool2d& p) const {
    T best = -std::numeric_limits<T>::infinity();
    std::int64_t winner = -1;
    const std::int64_t left = ow * p.stride_w - p.pad_w;
    const KernelRows columns = kernel_rows(left, p.KW, p.dilation_w, p.W);
    for (std::int64_t kh = row.rows.first; kh < row.rows.last; ++kh) {
      const T* from = row.plane + (row.origin_h + kh * p.dilation_h) * p.W + left;
      for (std::int64_t kw = columns.first; kw < columns.last; ++kw) {
        const T value = from[kw * p.dilation_w];
        if (winner >= 0 && (value <= best || std::isnan(best))) continue;
        best = value;
        winner = kh * p.KW + kw;
      }
    }
    out[ow] = best;
    if (index != nullptr) index[ow] = static_cast<std::uint8_t>(std::max<std::int64_t>(winner, 0));
  }

 private:
  template <class D>
  HWY_INLINE void store(D d, const State<D>& state, std::int64_t ow) const {
    hn::StoreU(largest_of(d, state), d, out + ow);
    if constexpr (std::is_same_v<State<D>, MaxState<D>>)
      hn::StoreU(position_bytes(d, state.where), hn::Rebind<std::uint8_t, D>(), index + ow);
  }
};

template <class T>
struct AverageRow {
  T* out;
  std::int64_t covered_rows;  ///< the rows of a window that the divisor counts

  template <class D>
  HWY_INLINE void vector(D d, const T* from, const Row<T>& row, std::int64_t ow, const Pool2d& p) const {
    SumState<D> state(d, 0);
    if (p.stride_w == 1)
      visit_window<1>(d, from, row.rows, p, state);
    else if (p.stride_w == 2)
      visit_window<2>(d, from, row.rows, p, state);
    else
      visit_window<0>(d, from, row.rows, p, state);
    hn::StoreU(hn::Div(state.sum, hn::Set(d, static_cast<T>(covered_rows * p.KW))), d, out + ow);
  }
  template <class D>
  HWY_INLINE void two_by_two(D d, const T* from, const Row<T>& /*row*/, std::int64_t ow, const Pool2d& p) const {
    SumState<D> state(d, 0);
    visit_two_by_two(d, from, p, state);
    hn::StoreU(hn::Mul(state.sum, hn::Set(d, T(0.25))), d, out + ow);
  }
  void scalar(const Row<T>& row, std::int64_t ow, const Pool2d& p) const {
    const std::int64_t left = ow * p.stride_w - p.pad_w;
    const KernelRows columns = kernel_rows(left, p.KW, 1, p.W);
    T sum = 0;
    for (std::int64_t kh = row.rows.first; kh < row.rows.last; ++kh)
      for (std::int64_t kw = columns.first; kw < columns.last; ++kw)
        sum += row.plane[(row.origin_h + kh) * p.W + left + kw];
    const std::int64_t covered =
        p.count_include_pad ? std::min(p.KW, p.W + p.pad_w - left) : columns.last - columns.first;
    out[ow] = sum / static_cast<T>(covered_rows * covered);
  }
};

/// The outputs [first, last) of a row in vectors of D; there is at least one vector's worth.
template <class D, class T, class RowKind>
HWY_NOINLINE void interior(D d, const RowKind& kind, const Row<T>& row, std::int64_t first, std::int64_t last,
                           const Pool2d& p) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const bool simple = is_two_by_two(p) && row.rows.last - row.rows.first == 2;
  const std::int64_t last_column = p.dilation_w == 1 ? (p.KW - 1) & ~std::int64_t{1} : (p.KW - 1) * p.dilation_w;
  const std::int64_t reach = (row.rows.last - 1) * p.dilation_h * p.W + last_column + 2 * lanes;
  for (std::int64_t ow = first; ow < last; ow += lanes) {
    const std::int64_t start = std::min(ow, last - lanes);
    const T* from = row.plane + row.origin_h * p.W + start * p.stride_w - p.pad_w;
    if (simple)
      kind.two_by_two(d, from, row, start, p);
    else if (p.stride_w != 2 || row.end - from >= reach)
      kind.vector(d, from, row, start, p);
    else  // pairs would read past the end of the input
      for (std::int64_t i = start; i < start + lanes; ++i) kind.scalar(row, i, p);
  }
}

template <class T, class RowKind>
void pool_row(const RowKind& kind, const Row<T>& row, const Interior& inside, const Pool2d& p) {
  const hn::ScalableTag<T> full;
  const hn::CappedTag<T, 8> eight;
  const hn::CappedTag<T, 4> four;
  const std::int64_t width = inside.last - inside.first;
  const auto fits = [&](auto d) { return width >= static_cast<std::int64_t>(hn::Lanes(d)); };
  const bool vectors = row.rows.first < row.rows.last && fits(four);
  const std::int64_t first = vectors ? inside.first : p.OW, last = vectors ? inside.last : p.OW;
  for (std::int64_t ow = 0; ow < first; ++ow) kind.scalar(row, ow, p);
  if (vectors) {
    if (fits(full))
      interior(full, kind, row, first, last, p);
    else if (fits(eight))
      interior(eight, kind, row, first, last, p);
    else
      interior(four, kind, row, first, last, p);
  }
  for (std::int64_t ow = last; ow < p.OW; ++ow) kind.scalar(row, ow, p);
}

/// A vector of outputs of adjacent 2 x 2 windows.
template <class D, class T>
HWY_INLINE void max_two_by_two(D d, T* out, std::uint8_t* index, const T* in, const Pool2d& p) {
  if (index == nullptr) {
    LargestState<D> state(d, 0);
    visit_two_by_two(d, in, p, state);
    return hn::StoreU(largest_of(d, state), d, out);
  }
  MaxState<D> state(d, 0);
  visit_two_by_two(d, in, p, state);
  hn::StoreU(state.best, d, out);
  hn::StoreU(position_bytes(d, state.where), hn::Rebind<std::uint8_t, D>(), index);
}

/// Some output rows, counted over all planes, of unpadded 2 x 2 windows with stride 2.
template <class D, class T>
HWY_NOINLINE void max_rows_two_by_two(D d, T* out, std::uint8_t* index, const T* in, Range rows, const Pool2d& p) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t plane = rows.first / p.OH, oh = rows.first % p.OH;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const T* from = in + (plane * p.H + 2 * oh) * p.W;
    const std::int64_t at = row * p.OW;
    for (std::int64_t ow = 0; ow < p.OW; ow += lanes) {
      const std::int64_t start = std::min(ow, p.OW - lanes);
      max_two_by_two(d, out + at + start, index == nullptr ? nullptr : index + at + start, from + 2 * start, p);
    }
    if (++oh == p.OH) {
      oh = 0;
      ++plane;
    }
  }
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
