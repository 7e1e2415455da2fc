#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/gemm.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "vectorized/cache.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/transpose.hpp"

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

// ---- the outer-product tile ----------------------------------------------------------------------------------------
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

// ---- moving --------------------------------------------------------------------------------------------------------

template <class T>
void pack(T* panels, const T* b, std::int64_t b_row, std::int64_t k, std::int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t width = panel_vectors * lanes<T>(), strip = 8;
  const std::int64_t full = n / width * width, rest = n - full, panel = k * width;
  // Strips of rows, so that both sides have runs of some length.
  for (std::int64_t first = 0; first < k; first += strip) {
    const std::int64_t last = std::min(first + strip, k);
    T* to = panels;
    for (std::int64_t j = 0; j < full; j += width, to += panel) {
      for (std::int64_t p = first; p < last; ++p) {
        const T* from = b + p * b_row + j;
        for (std::int64_t v = 0; v < width; v += lanes<T>()) {
          hwy::Prefetch(from + strip * b_row + v);
          hn::Store(hn::LoadU(d, from + v), d, to + p * width + v);
        }
      }
    }
    if (rest > 0)
      for (std::int64_t p = first; p < last; ++p) copy_row<true>(to + p * width, b + p * b_row + full, rest);
  }
}

template <class T>
void pack_transposed(T* panels, const T* b, std::int64_t b_row, std::int64_t k, std::int64_t n) {
  constexpr std::int64_t width = panel_vectors * lanes<T>();
  for (std::int64_t j = 0; j < n; j += width, panels += k * width) {
    const std::int64_t columns = std::min(width, n - j);
    transpose(panels, width, b + j * b_row, b_row, columns, k);
    if (columns < width)
      for (std::int64_t p = 0; p < k; ++p) std::fill(panels + p * width + columns, panels + (p + 1) * width, T{0});
  }
}

/// The first row of tile `t` of m rows; tiles are nearly equally high.
HWY_INLINE std::int64_t tile_edge(std::int64_t m, std::int64_t t) { return m * t / ((m + tile_rows - 1) / tile_rows); }

/// k columns of m <= tile_rows elements, one after another.
template <class T>
HWY_INLINE void copy_columns(T* out, const T* a, std::int64_t a_column, std::int64_t m, std::int64_t k) {
  if (m == tile_rows)
    for (std::int64_t p = 0; p < k; ++p) std::memcpy(out + p * tile_rows, a + p * a_column, tile_rows * sizeof(T));
  else
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t i = 0; i < m; ++i) out[p * m + i] = a[p * a_column + i];
}

template <class T>
void pack_tiles(T* tiles, const T* a, std::int64_t a_column, std::int64_t m, std::int64_t k) {
  constexpr std::int64_t strip = 8;  // columns of a, so that both sides have runs of some length
  const std::int64_t count = (m + tile_rows - 1) / tile_rows;
  for (std::int64_t from = 0; from < k; from += strip)
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t first = tile_edge(m, t), rows = tile_edge(m, t + 1) - first;
      const std::int64_t last = std::min(from + strip, k);
      for (std::int64_t p = from; p < last; ++p) hwy::Prefetch(a + (p + strip) * a_column + first);
      copy_columns(tiles + first * k + from * rows, a + from * a_column + first, a_column, rows, last - from);
    }
}

// ---- a block ------------------------------------------------------------------------------------------------------

inline constexpr std::int64_t copied_depth = 512;

template <class T>
void columns_of(TileFunction<T> function, const Block<T>& block) {
  if (has_masked_memory || block.n % lanes<T>() == 0)
    function(block);
  else
    edge_tile<T>(function, block);
}

/// Columns that three vectors hold, in parts of at most odd_rows rows. block.a_next: the rows behind them, or null.
template <class T, class Function>
void multiply_odd(const Function& function, const Block<T>& block) {
  const std::int64_t parts = (block.m + odd_rows - 1) / odd_rows;
  for (std::int64_t p = 0; p < parts; ++p) {
    const std::int64_t first = block.m * p / parts;
    Block<T> part = block;
    part.m = block.m * (p + 1) / parts - first;
    part.a += first * block.a_row;
    part.c += first * block.c_row;
    if (block.row_bias != nullptr) part.row_bias += first;
    if (part.a_next != nullptr) part.a_next = part.a + part.m * part.a_row;
    function(part.m)(part);
  }
}

/// Columns that one vector holds.
template <bool ByRows, class T>
void multiply_narrow(const Block<T>& block) {
  const std::int64_t tiles = (block.m + narrow_rows - 1) / narrow_rows;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t first = block.m * t / tiles;
    Block<T> part = block;
    part.m = block.m * (t + 1) / tiles - first;
    part.a += first * block.a_row;
    part.c += first * block.c_row;
    if (block.row_bias != nullptr) part.row_bias += first;
    part.a_next = ByRows && t + 1 < tiles && block.runs == nullptr ? part.a + part.m * block.a_row : nullptr;
    columns_of<T>(tile_function<ByRows, T>(part.m, 1), part);
  }
}

template <bool ByRows, class T>
void multiply_by(const Block<T>& block) {
  constexpr std::int64_t width = panel_vectors * lanes<T>(), wide = wide_vectors * lanes<T>();
  const std::int64_t tiles = (block.m + tile_rows - 1) / tile_rows;
  // A tile of a that is read often, with strides that are hard on the cache, is copied first: rows that all fall into
  // the same lines of it, columns in as many pages.
  HWY_ALIGN T copy[copied_depth * tile_rows];
  const std::int64_t stride_bytes = (ByRows ? block.a_row : block.a_column) * static_cast<std::int64_t>(sizeof(T));
  const bool hard = ByRows ? stride_bytes % 4096 == 0 && tile_rows > first_level_ways() : stride_bytes > 512;
  const bool copied =
      !block.a_tiles &&
      (block.tiles != nullptr || (hard && block.runs == nullptr && block.n >= 4 * width && block.k <= copied_depth));
  const std::int64_t a_row = block.a_tiles ? block.k : block.a_row;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t first = tile_edge(block.m, t);
    Block<T> part = block;
    part.m = tile_edge(block.m, t + 1) - first;
    part.a += first * a_row;
    const T* const next_a = t + 1 < tiles && block.runs == nullptr ? part.a + part.m * a_row : nullptr;
    if (copied) {  // adjacent rows of a tile: its lines then do not collide in the cache
      T* const tile = block.tiles == nullptr ? copy : block.tiles + first * block.k;
      if constexpr (ByRows)
        transpose<T>(tile, part.m, part.a, a_row, part.m, block.k);
      else
        copy_columns(tile, part.a, block.a_column, part.m, block.k);
      part.a = tile;
    }
    if (copied || block.a_tiles) {
      part.a_row = 1;
      part.a_column = part.m;
    }
    part.c += first * block.c_row;
    if (block.row_bias != nullptr) part.row_bias += first;
    const auto advance = [&](std::int64_t columns) {
      part.b += columns / width * block.b_panel;
      part.c += columns;
      if (part.column_bias != nullptr) part.column_bias += columns;
      part.n -= columns;
    };
    if (part.m <= wide_rows && block.b_panel == width) {
      const auto function = copied ? wide_function<false, T>(part.m) : wide_function<ByRows, T>(part.m);
      while (part.n >= wide) {
        function(part);
        part.b += wide;
        part.c += wide;
        if (part.column_bias != nullptr) part.column_bias += wide;
        part.n -= wide;
      }
    }
    const auto tile_for = copied ? tile_function<false, T> : tile_function<ByRows, T>;
    const auto full = tile_for(part.m, panel_vectors);
    const bool odd = odd_rows > 0 && has_masked_memory && part.n % width > 0 && part.n % width <= lanes<T>();
    const std::int64_t left = odd ? width : 0;  // for three vectors at the end
    const bool by_lines = next_a != nullptr && (block.a_tiles || (ByRows && block.tiles != nullptr));
    const T* const next_rows = ByRows && !copied ? next_a : nullptr;
    for (; part.n - left >= width; advance(width)) {
      const bool last = part.n < 2 * width + left;
      part.a_next = last ? next_rows : nullptr;
      part.c_next = !last ? width : t + 1 < tiles ? part.m * block.c_row - (block.n - part.n) : 0;
      const std::int64_t behind = part.n / width - 1;  // panels: one row during each of the last ones
      if (by_lines && behind < part.m) part.a_next = next_a + behind * a_row;
      part.b_next = last ? block.b_next : nullptr;
      part.b_next_rows = (ahead + tiles - 1) / tiles;
      if (part.b_next != nullptr) part.b_next += block.k * t / tiles * block.b_row;
      full(part);
    }
    if constexpr (odd_rows > 0)
      if (odd && part.n > width) {
        part.c_next = 0;
        const auto columns = copied ? odd_function<false, T> : odd_function<ByRows, T>;
        part.a_next = next_rows;
        part.b_next = nullptr;
        multiply_odd<T>(columns, part);
        continue;
      }
    if (part.n == 0) continue;
    part.c_next = 0;
    if (block.n < width) part.a_next = next_rows;
    columns_of<T>(tile_for(part.m, (part.n + lanes<T>() - 1) / lanes<T>()), part);
  }
}

template <bool ByRows, class T>
void multiply_columns(Block<T> block) {
  constexpr std::int64_t width = panel_vectors * lanes<T>();
  const std::int64_t rest = block.n % width, whole = block.n - rest;
  if (narrow_rows > tile_rows && !block.a_tiles && block.m > tile_rows && whole < 4 * width && rest > 0 &&
      rest <= lanes<T>()) {
    Block<T> last = block;
    last.n = rest;
    last.b += whole / width * block.b_panel;
    last.c += whole;
    if (last.column_bias != nullptr) last.column_bias += whole;
    multiply_narrow<ByRows>(last);
    block.n = whole;
  }
  if (block.n > 0) multiply_by<ByRows>(block);
}

template <class T>
void multiply(const Block<T>& block) {
  if (block.a_column == 1 && !block.a_tiles)
    multiply_columns<true>(block);
  else
    multiply_columns<false>(block);
}

template <class T>
const GemmKernels<T>& kernels() {
  static constexpr GemmKernels<T> table{.lanes = lanes<T>(),
                                        .tile_rows = tile_rows,
                                        .narrow_rows = narrow_rows,
                                        .panel_width = panel_vectors * lanes<T>(),
                                        .multiply = multiply<T>,
                                        .pack = pack<T>,
                                        .pack_transposed = pack_transposed<T>,
                                        .pack_tiles = pack_tiles<T>,
                                        .transpose = transpose<T>};
  return table;
}

const GemmKernels<float>& kernels_float() { return kernels<float>(); }
const GemmKernels<double>& kernels_double() { return kernels<double>(); }
const char* target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

HWY_EXPORT(target);

const char* gemm_target() { return HWY_DYNAMIC_DISPATCH(target)(); }

TERN_DISPATCHED(gemm_kernels, kernels)

}  // namespace tern::vectorized
#endif
