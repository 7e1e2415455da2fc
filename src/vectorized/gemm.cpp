#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/gemm.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "vectorized/cache.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/gemm_tile.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/transpose.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

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
