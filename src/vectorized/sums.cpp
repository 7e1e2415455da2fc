#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/sums.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "vectorized/dispatched.hpp"
#include "vectorized/sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Vector = hn::Vec<hn::ScalableTag<T>>;

// 32 vector registers hold 4 x 6 sums, six vectors of b and one of a; 16 hold 3 x 3, and 4 x 3 rather than a second
// tile for one more row.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int most_sums = 24, last_sums = 24, most_columns = 6;
#else
inline constexpr int most_sums = 9, last_sums = 12, most_columns = 3;
#endif
inline constexpr int most_rows = 8;
// One or two rows: more columns keep the sums' chains independent, and end fewer tiles.
constexpr int columns_for(std::int64_t rows) {
  return rows == 1 ? 8 : rows == 2 ? std::max(4, most_columns) : most_columns;
}

template <class T>
constexpr std::int64_t lanes() {
  return static_cast<std::int64_t>(HWY_MAX_BYTES / sizeof(T)) > 0 && HWY_TARGET != HWY_SCALAR
             ? static_cast<std::int64_t>(HWY_MAX_BYTES / sizeof(T))
             : 1;
}

// ---- the dot-product tile ------------------------------------------------------------------------------------------

#if HWY_TARGET != HWY_SCALAR
/// Adds the 128-bit blocks of a vector.
template <class D, class V, class T>
HWY_INLINE void sum_blocks(D d, V v, T* out) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) <= 16) {
    hn::StoreU(v, d, out);
  } else {
    const hn::Half<D> half;
    sum_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), out);
  }
}
#endif

/// The sums of the lanes of four vectors.
template <class T>
HWY_INLINE void sum_lanes(Vector<T> v0, Vector<T> v1, Vector<T> v2, Vector<T> v3, T* out) {
#if HWY_TARGET == HWY_SCALAR
  out[0] = hn::GetLane(v0);
  out[1] = hn::GetLane(v1);
  out[2] = hn::GetLane(v2);
  out[3] = hn::GetLane(v3);
#else
  const hn::ScalableTag<T> d;
  const auto v01 = hn::Add(hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1));
  const auto v23 = hn::Add(hn::InterleaveLower(d, v2, v3), hn::InterleaveUpper(d, v2, v3));
  if constexpr (sizeof(T) == 4) {
    const hn::Repartition<double, decltype(d)> wide;
    const auto pairs01 = hn::BitCast(wide, v01), pairs23 = hn::BitCast(wide, v23);
    sum_blocks(d,
               hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, pairs01, pairs23)),
                       hn::BitCast(d, hn::InterleaveUpper(wide, pairs01, pairs23))),
               out);
  } else {
    sum_blocks(d, v01, out);
    sum_blocks(d, v23, out + 2);
  }
#endif
}

template <int I, int M, int V, class T>
HWY_INLINE void clear(Vector<T> (&sum)[M * V]) {
  if constexpr (I < M * V) {
    sum[I] = hn::Zero(hn::ScalableTag<T>());
    clear<I + 1, M, V, T>(sum);
  }
}

template <int J, int I, int M, int N, class T>
HWY_INLINE void multiply_row(Vector<T> (&sum)[M * N], Vector<T> a, const Vector<T> (&b)[N]) {
  if constexpr (J < N) {
    sum[I * N + J] = hn::MulAdd(a, b[J], sum[I * N + J]);
    multiply_row<J + 1, I, M, N, T>(sum, a, b);
  }
}

/// The first `count` elements at `from`, followed by zeros.
template <class T>
HWY_INLINE Vector<T> load_some(const T* from, std::int64_t count) {
  const hn::ScalableTag<T> d;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, from);
#else
  HWY_ALIGN T some[lanes<T>()] = {};
  std::copy_n(from, count, some);
  return hn::Load(d, some);
#endif
}

template <int J, bool Some, int N, class T>
HWY_INLINE void load_rows(Vector<T> (&b)[N], const T* from, std::int64_t b_row, std::int64_t count) {
  if constexpr (J < N) {
    if constexpr (Some)
      b[J] = load_some<T>(from + J * b_row, count);
    else
      b[J] = hn::LoadU(hn::ScalableTag<T>(), from + J * b_row);
    load_rows<J + 1, Some, N, T>(b, from, b_row, count);
  }
}

/// Rows J to 2 N of b: those that the next tile reads.
template <int J, int N, class T>
HWY_INLINE void prefetch_rows(const T* from, std::int64_t b_row) {
  if constexpr (J < 2 * N) {
    hwy::Prefetch(from + J * b_row);
    prefetch_rows<J + 1, N, T>(from, b_row);
  }
}

template <int I, bool Some, int M, int N, class T>
HWY_INLINE void dot_rows_step(Vector<T> (&sum)[M * N], const T* a, std::int64_t a_row, const Vector<T> (&b)[N],
                              std::int64_t count) {
  if constexpr (I < M) {
    Vector<T> row[1];
    load_rows<0, Some, 1, T>(row, a + I * a_row, 0, count);
    multiply_row<0, I, M, N, T>(sum, row[0], b);
    dot_rows_step<I + 1, Some, M, N, T>(sum, a, a_row, b, count);
  }
}

template <int I, int Count, class T>
HWY_INLINE void sum_all(const Vector<T> (&sum)[Count], T* out) {
  if constexpr (I < Count) {
    constexpr int last = Count - 1;  // a short last group repeats a vector; `out` has room
    sum_lanes<T>(sum[I], sum[std::min(I + 1, last)], sum[std::min(I + 2, last)], sum[std::min(I + 3, last)], out + I);
    sum_all<I + 4, Count, T>(sum, out);
  }
}

template <int M, int N, class T>
void dot_tile(const Dots<T>& block) {
  constexpr std::int64_t line = 64 / sizeof(T), begun = 4 * line;  // the processor itself goes on with a row
  Vector<T> sum[M * N];
  clear<0, M, N, T>(sum);
  for (const Run *run = block.runs, *end = run + block.run_count; run != end; ++run) {
    const T *a = block.a + run->a, *b = block.b + run->b;
    std::int64_t p = run->k;
    if (N == columns_for(M) && block.run_count == 1)
      for (std::int64_t i = 0; i < begun; i += line) prefetch_rows<N, N, T>(b + i, block.b_row);
    for (; p >= lanes<T>(); p -= lanes<T>()) {
      Vector<T> row[N];
      load_rows<0, false, N, T>(row, b, block.b_row, 0);
      dot_rows_step<0, false, M, N, T>(sum, a, block.a_row, row, 0);
      a += lanes<T>();
      b += lanes<T>();
    }
    if (p > 0) {
      Vector<T> row[N];
      load_rows<0, true, N, T>(row, b, block.b_row, p);
      dot_rows_step<0, true, M, N, T>(sum, a, block.a_row, row, p);
    }
  }
  T total[M * N + 3];
  sum_all<0, M * N, T>(sum, total);
  // One condition per loop: a branch on the sums' signs would be mispredicted half the time.
  if (block.column_bias != nullptr)
    for (int i = 0; i < M * N; ++i) total[i] += block.column_bias[i % N];
  if (block.relu)
    for (int i = 0; i < M * N; ++i) {
      const T raised = total[i] < T{0} ? T{0} : total[i];
      total[i] = raised > block.top ? block.top : raised;
    }
  for (int i = 0; i < M; ++i) {
    T* const c = block.c + i * block.c_row;
    if (block.accumulate)
      for (int j = 0; j < N; ++j) c[j] += total[i * N + j];
    else
      std::copy_n(total + i * N, N, c);
  }
}

/// Few columns: more rows keep the sums' chains independent.
constexpr int rows_for(int columns) { return std::min(most_rows, most_sums / columns); }

/// The rows that are left, at most M.
template <int M, int N, class T>
void last_rows(const Dots<T>& block) {
  if constexpr (M > 0) block.m == M ? dot_tile<M, N>(block) : last_rows<M - 1, N>(block);
}

/// N columns, or those that are left.
template <int N, class T>
void some_columns(Dots<T> block) {
  if constexpr (N > 0) {
    if (block.n != N) return some_columns<N - 1>(block);
    constexpr int rows = rows_for(N), all = std::min(most_rows, last_sums / N), last = all == rows ? rows - 1 : all;
    for (; block.m > last; block.m -= rows, block.a += rows * block.a_row, block.c += rows * block.c_row)
      dot_tile<rows, N>(block);
    last_rows<last, N>(block);
  }
}

/// The same for M rows, one or two.
template <int M, int N, class T>
void one_or_two_rows(const Dots<T>& block) {
  if constexpr (N > 0) block.n == N ? dot_tile<M, N>(block) : one_or_two_rows<M, N - 1>(block);
}

template <class T>
void dots(const Dots<T>& all) {
  const std::int64_t width = columns_for(all.m), tiles = (all.n + width - 1) / width;  // of nearly equal width
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t first = all.n * t / tiles;
    Dots<T> block = all;
    block.n = all.n * (t + 1) / tiles - first;
    block.b += first * all.b_row;
    block.c += first;
    if (all.column_bias != nullptr) block.column_bias += first;
    if (block.m == 1)
      one_or_two_rows<1, columns_for(1)>(block);
    else if (block.m == 2)
      one_or_two_rows<2, columns_for(2)>(block);
    else
      some_columns<most_columns>(block);
  }
}

// ---- the gradient's small parts ------------------------------------------------------------------------------------

template <class T>
void relu_gradient(T* out, const T* grad, const T* saved, std::int64_t n) {
  const hn::ScalableTag<T> d;
  std::int64_t i = 0;
  for (; i + lanes<T>() <= n; i += lanes<T>())
    hn::StoreU(hn::IfThenZeroElse(hn::Le(hn::LoadU(d, saved + i), hn::Zero(d)), hn::LoadU(d, grad + i)), d, out + i);
  for (; i < n; ++i) out[i] = saved[i] <= T{0} ? T{0} : grad[i];
}

inline constexpr std::int64_t sum_block = 64;  // rows that are summed before they join the total

template <class T>
void column_sums(T* out, const T* in, std::int64_t in_row, std::int64_t rows, std::int64_t n) {
  const hn::ScalableTag<T> d;
  std::int64_t j = 0;
  for (; j + lanes<T>() <= n; j += lanes<T>()) {
    auto total = hn::Zero(d);
    for (std::int64_t first = 0; first < rows; first += sum_block) {
      auto part = hn::Zero(d);
      for (std::int64_t i = first; i < std::min(first + sum_block, rows); ++i)
        part = hn::Add(part, hn::LoadU(d, in + i * in_row + j));
      total = hn::Add(total, part);
    }
    hn::StoreU(total, d, out + j);
  }
  for (; j < n; ++j) {
    T total{0};
    for (std::int64_t first = 0; first < rows; first += sum_block) {
      T part{0};
      for (std::int64_t i = first; i < std::min(first + sum_block, rows); ++i) part += in[i * in_row + j];
      total += part;
    }
    out[j] = total;
  }
}

template <class T>
T sum(const T* in, std::int64_t n) {
  const hn::ScalableTag<T> d;
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  std::int64_t i = 0;
  for (; i + 4 * lanes<T>() <= n; i += 4 * lanes<T>()) {
    sum0 = hn::Add(sum0, hn::LoadU(d, in + i));
    sum1 = hn::Add(sum1, hn::LoadU(d, in + i + lanes<T>()));
    sum2 = hn::Add(sum2, hn::LoadU(d, in + i + 2 * lanes<T>()));
    sum3 = hn::Add(sum3, hn::LoadU(d, in + i + 3 * lanes<T>()));
  }
  T total[4];
  sum_lanes<T>(sum0, sum1, sum2, sum3, total);
  T rest{0};
  for (; i < n; ++i) rest += in[i];
  return (total[0] + total[1]) + (total[2] + total[3]) + rest;
}

template <class T>
const SumKernels<T>& kernels() {
  static constexpr SumKernels<T> table{.dots = dots<T>,
                                       .dot_rows = most_rows,
                                       .dot_columns = most_columns,
                                       .dot_sums = most_sums,
                                       .relu_gradient = relu_gradient<T>,
                                       .column_sums = column_sums<T>,
                                       .sum = sum<T>};
  return table;
}

const SumKernels<float>& kernels_float() { return kernels<float>(); }
const SumKernels<double>& kernels_double() { return kernels<double>(); }

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(sum_kernels, kernels)

}  // namespace tern::vectorized
#endif
