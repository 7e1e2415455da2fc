// Sums over one axis. Along a contiguous axis: blocks of rows, lanes combined in a fixed order, block sums as a fixed
// tree. Across inner elements: lanes are columns. Compiled once per instruction set (see targets.hpp).

#if defined(TERN_VECTORIZED_AXIS_SUM_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_AXIS_SUM_HPP
#undef TERN_VECTORIZED_AXIS_SUM_HPP
#else
#define TERN_VECTORIZED_AXIS_SUM_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "tern/kernels/reduction.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/sum_blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct SquaredDeviation {
  template <class D, class V>
  HWY_INLINE V operator()(D /*d*/, V value, V center) const {
    const V deviation = hn::Sub(value, center);
    return hn::Mul(deviation, deviation);
  }
};
struct Deviation {
  template <class D, class V>
  HWY_INLINE V operator()(D /*d*/, V value, V center) const {
    return hn::Sub(value, center);
  }
};
struct Value {
  template <class D, class V>
  HWY_INLINE V operator()(D /*d*/, V value, V /*center*/) const {
    return value;
  }
};

/// The term of one row: its centre is a scalar.
template <class Term, class T>
struct Centred {
  T center;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    return Term{}(d, value, hn::Set(d, center));
  }
};

template <class Term, class T>
HWY_NOINLINE T row_sum(const T* in, std::int64_t n, T center) {
  return map_sum(Centred<Term, T>{center}, n, in);
}

/// How [outer, length, inner] with inner > 1 is cut into items of `rows` of `length` and `width` columns each.
struct AxisCut {
  static constexpr std::int64_t width = 512;
  std::int64_t rows, row_blocks, column_blocks, items;

  explicit AxisCut(const kernels::Axis& axis)
      : rows(std::max<std::int64_t>(256, (axis.length + 255) / 256)),
        row_blocks(std::max<std::int64_t>(1, (axis.length + rows - 1) / rows)),
        column_blocks((axis.inner + width - 1) / width),
        items(axis.outer * row_blocks * column_blocks) {}
};

/// Sums of `columns` columns over `rows` rows that are `inner` apart; sixteen rows at a time, so that rounding grows at
/// most with the square root of the length. `out` may be `center`.
template <class Term, class T>
HWY_NOINLINE void column_sums(T* out, const T* in, const T* center, std::int64_t rows, std::int64_t inner,
                              std::int64_t columns) {
  constexpr std::int64_t stride = 16;
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Term term;
  std::int64_t c = 0;
  for (; c + 4 * lanes <= columns; c += 4 * lanes) {
    const auto center0 = hn::LoadU(d, center + c), center1 = hn::LoadU(d, center + c + lanes);
    const auto center2 = hn::LoadU(d, center + c + 2 * lanes), center3 = hn::LoadU(d, center + c + 3 * lanes);
    auto total0 = hn::Zero(d), total1 = total0, total2 = total0, total3 = total0;
    for (std::int64_t first = 0; first < rows; first += stride) {
      auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
      for (std::int64_t r = first; r < std::min(rows, first + stride); ++r) {
        const T* from = in + r * inner + c;
        sum0 = hn::Add(sum0, term(d, hn::LoadU(d, from), center0));
        sum1 = hn::Add(sum1, term(d, hn::LoadU(d, from + lanes), center1));
        sum2 = hn::Add(sum2, term(d, hn::LoadU(d, from + 2 * lanes), center2));
        sum3 = hn::Add(sum3, term(d, hn::LoadU(d, from + 3 * lanes), center3));
      }
      total0 = hn::Add(total0, sum0);
      total1 = hn::Add(total1, sum1);
      total2 = hn::Add(total2, sum2);
      total3 = hn::Add(total3, sum3);
    }
    hn::StoreU(total0, d, out + c);
    hn::StoreU(total1, d, out + c + lanes);
    hn::StoreU(total2, d, out + c + 2 * lanes);
    hn::StoreU(total3, d, out + c + 3 * lanes);
  }
  for (; c < columns; c += lanes) {
    const auto shift = load_columns(d, center + c, columns - c);
    auto total = hn::Zero(d);
    for (std::int64_t first = 0; first < rows; first += stride) {
      auto sum = hn::Zero(d);
      for (std::int64_t r = first; r < std::min(rows, first + stride); ++r)
        sum = hn::Add(sum, term(d, load_columns(d, in + r * inner + c, columns - c), shift));
      total = hn::Add(total, sum);
    }
    store_columns(total, d, out + c, columns - c);
  }
}

/// out = sums / divisor over an axis, in phases(): one, or two if a sum has several blocks. `partial` holds the blocks'
/// sums. `center` holds one value per sum that is subtracted from each element, or is null.
template <class Term, class T>
class AxisSum {
 public:
  AxisSum(T* out, T* partial, const T* in, const T* center, const kernels::Axis& axis, T divisor)
      : out_(out), partial_(partial), in_(in), center_(center), axis_(axis), divisor_(divisor), cut_(axis) {}

  static std::int64_t blocks(const kernels::Axis& axis) {
    return axis.inner == 1 ? std::max<std::int64_t>(1, block_count(axis.length)) : AxisCut(axis).row_blocks;
  }
  static int phases(const kernels::Axis& axis) { return blocks(axis) == 1 ? 1 : 2; }
  static std::size_t partial_bytes(const kernels::Axis& axis) {
    return phases(axis) == 1 ? 0 : static_cast<std::size_t>(axis.outer * blocks(axis) * axis.inner) * sizeof(T);
  }

  /// One part of the work of a phase.
  void run(const Team& team, int phase) const {
    if (axis_.inner == 1) {
      if (phase == 0)
        sum_rows(team);
      else
        finish_rows(team);
    } else {
      if (phase == 0)
        sum_columns(team);
      else
        finish_columns(team);
    }
  }

 private:
  void sum_rows(const Team& team) const {
    const std::int64_t blocks = AxisSum::blocks(axis_), items = axis_.outer * blocks;
    for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
      const std::int64_t row = item / blocks, first = item % blocks * sum_block;
      const std::int64_t n = std::min(sum_block, axis_.length - first);
      const T sum = row_sum<Term>(in_ + row * axis_.length + first, n, center_ == nullptr ? T(0) : center_[row]);
      if (blocks == 1)
        out_[row] = sum / divisor_;
      else
        partial_[item] = sum;
    }
  }
  void finish_rows(const Team& team) const {
    const std::int64_t blocks = AxisSum::blocks(axis_);
    for (std::int64_t row = team.begin(axis_.outer); row < team.end(axis_.outer); ++row)
      out_[row] = pairwise_sum(partial_ + row * blocks, blocks) / divisor_;
  }

  void sum_columns(const Team& team) const {
    T* sums = cut_.row_blocks == 1 ? out_ : partial_;  // [outer, row_blocks, inner]
    for (std::int64_t item = team.begin(cut_.items); item < team.end(cut_.items); ++item) {
      const std::int64_t column = item % cut_.column_blocks * AxisCut::width, group = item / cut_.column_blocks;
      const std::int64_t row = group % cut_.row_blocks * cut_.rows, outer = group / cut_.row_blocks;
      const std::int64_t columns = std::min(AxisCut::width, axis_.inner - column);
      const T* from = in_ + (outer * axis_.length + row) * axis_.inner + column;
      T* to = sums + group * axis_.inner + column;
      const T* shift = center_ == nullptr ? from : center_ + outer * axis_.inner + column;
      column_sums<Term>(to, from, axis_.length == 0 ? to : shift, std::min(cut_.rows, axis_.length - row), axis_.inner,
                        columns);
      if (cut_.row_blocks == 1) divide(to, columns);
    }
  }
  void finish_columns(const Team& team) const {
    const std::int64_t items = axis_.outer * cut_.column_blocks;
    for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
      const std::int64_t column = item % cut_.column_blocks * AxisCut::width, outer = item / cut_.column_blocks;
      const std::int64_t columns = std::min(AxisCut::width, axis_.inner - column);
      const T* from = partial_ + outer * cut_.row_blocks * axis_.inner + column;
      T* to = out_ + outer * axis_.inner + column;
      column_sums<Value>(to, from, from, cut_.row_blocks, axis_.inner, columns);
      divide(to, columns);
    }
  }
  void divide(T* values, std::int64_t n) const {
    if (divisor_ != T(1))
      for (std::int64_t i = 0; i < n; ++i) values[i] /= divisor_;
  }

  T *out_, *partial_;
  const T *in_, *center_;
  const kernels::Axis& axis_;
  T divisor_;
  AxisCut cut_;
};

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
