// The tiles of gemm.cpp: outer products whose sums stay in registers. Compiled once per instruction set: include it
// after hwy/highway.h (see targets.hpp).

#if defined(TERN_VECTORIZED_GEMM_TILE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_GEMM_TILE_HPP
#undef TERN_VECTORIZED_GEMM_TILE_HPP
#else
#define TERN_VECTORIZED_GEMM_TILE_HPP
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <utility>

#include "vectorized/gemm.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Vector = hn::Vec<hn::ScalableTag<T>>;

// Register budget: 32 vector registers hold 12 x 2 sums, two vectors of b and a broadcast element of a; 16 hold 6 x 2.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int tile_rows = 12, wide_vectors = 6;
#else
inline constexpr int tile_rows = 6, wide_vectors = 3;
#endif
inline constexpr int panel_vectors = 2;
// One vector of columns needs more rows for as many chains of sums.
inline constexpr int narrow_rows = HWY_TARGET == HWY_AVX2 ? 12 : tile_rows;
inline constexpr int wide_rows = 4;  // up to here, tiles with more columns keep the sums' chains independent
// With 32 registers, three vectors of columns together rather than two and one, whose tile waits for a.
inline constexpr int odd_vectors = panel_vectors + 1, odd_rows = tile_rows == 12 ? 6 : 0;

template <class T>
constexpr std::int64_t lanes() {
  return static_cast<std::int64_t>(HWY_MAX_BYTES / sizeof(T)) > 0 && HWY_TARGET != HWY_SCALAR
             ? static_cast<std::int64_t>(HWY_MAX_BYTES / sizeof(T))
             : 1;
}

template <class T>
HWY_INLINE Vector<T> clipped(Vector<T> value, Vector<T> top) {
  const hn::ScalableTag<T> d;
  value = hn::IfThenZeroElse(hn::Lt(value, hn::Zero(d)), value);  // keeps NaN
  return hn::IfThenElse(hn::Gt(value, top), top, value);
}

// The loops over the tile are template recursions, so that every sum has a constant index and stays in a register.

enum class Start { zero, c, row_bias, column_bias };

/// A vector, of which `count` elements may exist alone if it is the last one of a row.
template <bool Last, class D, class T>
HWY_INLINE Vector<T> load_part(D d, const T* from, std::int64_t count) {
  if constexpr (Last && has_masked_memory) return load_columns(d, from, count);
  return hn::LoadU(d, from);
}

/// `last`: columns of the last vector.
template <Start From, int I, int M, int V, class T>
HWY_INLINE void start(Vector<T> (&sum)[M * V], const T* from, std::int64_t row, std::int64_t last) {
  if constexpr (I < M * V) {
    const hn::ScalableTag<T> d;
    if constexpr (From == Start::zero)
      sum[I] = hn::Zero(d);
    else if constexpr (From == Start::c)
      sum[I] = load_part<I % V == V - 1>(d, from + I / V * row + I % V * lanes<T>(), last);
    else if constexpr (From == Start::row_bias)
      sum[I] = hn::Set(d, from[I / V]);
    else
      sum[I] = load_part<I % V == V - 1>(d, from + I % V * lanes<T>(), last);
    start<From, I + 1, M, V, T>(sum, from, row, last);
  }
}

template <bool Relu, int I, int M, int V, class T>
HWY_INLINE void finish(const Vector<T> (&sum)[M * V], T* c, std::int64_t c_row, Vector<T> top, std::int64_t last) {
  if constexpr (I < M * V) {
    const hn::ScalableTag<T> d;
    T* to = c + I / V * c_row + I % V * lanes<T>();
    Vector<T> value = sum[I];
    if constexpr (Relu) value = clipped<T>(value, top);
    if constexpr (I % V == V - 1 && has_masked_memory)
      store_columns(value, d, to, last);
    else
      hn::StoreU(value, d, to);
    finish<Relu, I + 1, M, V, T>(sum, c, c_row, top, last);
  }
}

/// `next`: the vector behind a panel.
template <int J, int V, class T>
HWY_INLINE void load(Vector<T> (&b)[V], const T* from, const T* next) {
  if constexpr (J < V) {
    b[J] = hn::LoadU(hn::ScalableTag<T>(), V == odd_vectors && J == panel_vectors ? next : from + J * lanes<T>());
    load<J + 1, V, T>(b, from, next);
  }
}

template <int J, int I, int M, int V, class T>
HWY_INLINE void multiply_row(Vector<T> (&sum)[M * V], Vector<T> a, const Vector<T> (&b)[V]) {
  if constexpr (J < V) {
    sum[I * V + J] = hn::MulAdd(a, b[J], sum[I * V + J]);
    multiply_row<J + 1, I, M, V, T>(sum, a, b);
  }
}

/// Element (I, 0) of a. By rows, three base pointers and multiples of the stride address all rows without arithmetic in
/// the loop.
template <bool ByRows, int I, class T>
HWY_INLINE T element(const T* const (&a)[3], std::int64_t a_row) {
  if constexpr (ByRows)
    return a[I / 4][I % 4 * a_row];
  else
    return a[0][I];
}

template <bool ByRows, int I, int M, int V, class T>
HWY_INLINE void multiply_column(Vector<T> (&sum)[M * V], const T* const (&a)[3], std::int64_t a_row,
                                const Vector<T> (&b)[V]) {
  if constexpr (I < M) {
    multiply_row<0, I, M, V, T>(sum, hn::Set(hn::ScalableTag<T>(), element<ByRows, I>(a, a_row)), b);
    multiply_column<ByRows, I + 1, M, V, T>(sum, a, a_row, b);
  }
}

/// Into the second-level cache.
HWY_INLINE void prefetch_far(const void* from) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  __builtin_prefetch(from, 0, 2);
#endif
}

inline constexpr std::int64_t ahead = 16;  // steps of k between prefetches
// With AVX2 the loop's own arithmetic takes the ports of multiply-adds: 104 and unrolled 114 of 127 GFLOP/s.
inline constexpr int unrolled = HWY_TARGET == HWY_AVX2 ? 8 : 1;

/// One tile: M rows of c, V vectors of columns.
template <bool ByRows, int M, int V, class T>
void tile(const Block<T>& block) {
  Vector<T> sum[M * V];
  const std::int64_t rest = block.n - (V - 1) * lanes<T>();
  if (block.accumulate)
    start<Start::c, 0, M, V, T>(sum, block.c, block.c_row, rest);
  else if (block.row_bias != nullptr)
    start<Start::row_bias, 0, M, V, T>(sum, block.row_bias, 0, rest);
  else if (block.column_bias != nullptr)
    start<Start::column_bias, 0, M, V, T>(sum, block.column_bias, 0, rest);
  else
    start<Start::zero, 0, M, V, T>(sum, nullptr, 0, rest);
  const std::int64_t a_row = block.a_row, a_column = ByRows ? 1 : block.a_column, b_row = block.b_row;
  const T* b_next = block.b_next;
  for (int i = 0; i < M; ++i)  // c may come from far away, and the products take a while
    for (int j = 0; j < V; ++j) hwy::Prefetch(block.c + block.c_next + i * block.c_row + j * lanes<T>());
  const Run whole{.k = block.k};
  const Run* const runs = block.runs == nullptr ? &whole : block.runs;
  for (const Run *run = runs, *end = runs + (block.runs == nullptr ? 1 : block.run_count); run != end; ++run) {
    const T* const start_a = block.a + run->a;
    const T* a[3] = {start_a, start_a + 4 * a_row, start_a + 8 * a_row};
    const T* b = block.b + run->b * b_row;
    [[maybe_unused]] const T* next = b + block.b_panel;
    for (std::int64_t first = 0; first < run->k; first += ahead) {
      const std::int64_t last = std::min(first + ahead, run->k);
      if (block.a_next != nullptr) {
        if constexpr (ByRows)
          for (int i = 0; i < M; ++i) hwy::Prefetch(block.a_next + i * a_row + first);
        else
          prefetch_far(block.a_next + first);
      }
      if (block.b_next != nullptr)
        for (std::int64_t p = 0; p < block.b_next_rows; ++p, b_next += b_row)
          for (int j = 0; j < V; ++j) prefetch_far(b_next + j * lanes<T>());
#pragma GCC unroll unrolled
      for (std::int64_t p = first; p < last; ++p) {
        Vector<T> row[V];
        load<0, V, T>(row, b, next);
        if constexpr (V == odd_vectors) next += b_row;
        if constexpr (V == wide_vectors)  // rows of b in place: each is in another page
          for (int j = 0; j < V; ++j) hwy::Prefetch(b + 8 * b_row + j * lanes<T>());
        multiply_column<ByRows, 0, M, V, T>(sum, a, a_row, row);
        b += b_row;
        a[0] += a_column;
        if constexpr (ByRows && M > 4) a[1] += 1;
        if constexpr (ByRows && M > 8) a[2] += 1;
      }
    }
  }
  const Vector<T> top = hn::Set(hn::ScalableTag<T>(), block.top);
  if (block.relu)
    finish<true, 0, M, V, T>(sum, block.c, block.c_row, top, rest);
  else
    finish<false, 0, M, V, T>(sum, block.c, block.c_row, top, rest);
}

template <class T>
using TileFunction = void (*)(const Block<T>&);

template <bool ByRows, int V, class T, int... M>
constexpr std::array<TileFunction<T>, sizeof...(M)> tile_table(std::integer_sequence<int, M...>) {
  return {&tile<ByRows, M + 1, V, T>...};
}

template <bool ByRows, class T>
TileFunction<T> tile_function(std::int64_t rows, std::int64_t vectors) {
  static constexpr auto one = tile_table<ByRows, 1, T>(std::make_integer_sequence<int, narrow_rows>());
  static constexpr auto two = tile_table<ByRows, 2, T>(std::make_integer_sequence<int, tile_rows>());
  const auto row = static_cast<std::size_t>(rows - 1);
  return vectors == 1 ? one[row] : two[row];
}

template <bool ByRows, class T>
TileFunction<T> wide_function(std::int64_t rows) {
  static constexpr auto wide = tile_table<ByRows, wide_vectors, T>(std::make_integer_sequence<int, wide_rows>());
  return wide[static_cast<std::size_t>(rows - 1)];
}

/// `count` <= panel_width elements of a row, into a panel with zeros behind them.
template <bool ToPanel, class T>
HWY_INLINE void copy_row(T* to, const T* from, std::int64_t count) {
  const hn::ScalableTag<T> d;
  for (int v = 0; v < panel_vectors; ++v, to += lanes<T>(), from += lanes<T>(), count -= lanes<T>()) {
    const std::int64_t n = std::clamp<std::int64_t>(count, 0, lanes<T>());
    if constexpr (ToPanel)
      hn::StoreU(load_first(d, from, n), d, to);
    else
      store_first(hn::LoadU(d, from), d, to, n);
  }
}

/// Up to odd_rows rows of three vectors.
template <bool ByRows, class T>
TileFunction<T> odd_function(std::int64_t rows) {
  static constexpr auto odd = tile_table<ByRows, odd_vectors, T>(std::make_integer_sequence<int, odd_rows>());
  return odd[static_cast<std::size_t>(rows - 1)];
}

/// A tile whose last columns are missing, without masked memory: computed into a full one, then copied.
template <class T>
void edge_tile(TileFunction<T> function, Block<T> block) {
  constexpr std::int64_t width = panel_vectors * lanes<T>();
  HWY_ALIGN T c[narrow_rows * width];
  HWY_ALIGN T bias[width] = {};
  T* const out = block.c;
  const std::int64_t out_row = block.c_row;
  if (block.accumulate)
    for (std::int64_t i = 0; i < block.m; ++i) copy_row<true>(c + i * width, out + i * out_row, block.n);
  if (block.column_bias != nullptr) {
    std::copy_n(block.column_bias, block.n, bias);
    block.column_bias = bias;
  }
  block.c = c;
  block.c_row = width;
  function(block);
  for (std::int64_t i = 0; i < block.m; ++i) copy_row<false>(out + i * out_row, c + i * width, block.n);
}

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
