#pragma once
// What the two directions of channels-last pooling share.

#include "cuda/pooling.cuh"

namespace tern::cuda::channels_last {

/// Splits a flat index over [images, rows, columns, packs of channels], so that neighbouring threads have neighbouring
/// channels.
template <class Index>
struct Tiles {
  Divisor<Index> packs, columns, rows;
  struct At {
    std::int64_t image;
    int row, column, channel;
  };
  Tiles(std::int64_t tile_rows, std::int64_t tile_columns, std::int64_t channel_packs)
      : packs(channel_packs), columns(tile_columns), rows(tile_rows) {}
  template <int V>
  __device__ At split(Index i) const {
    const int pack = static_cast<int>(packs.split(i)), column = static_cast<int>(columns.split(i));
    const int row = static_cast<int>(rows.split(i));
    return {static_cast<std::int64_t>(i), row, column, pack * V};
  }
};

/// Where the packs of an image lie.
struct Plane {
  int height, width;
  std::int64_t channels;
  __device__ bool has(int h, int w) const { return h >= 0 && h < height && w >= 0 && w < width; }
  __device__ std::int64_t offset(std::int64_t image, int h, int w, std::int64_t channel) const {
    return ((image * height + h) * width + w) * channels + channel;
  }
};

// ---- launches ----

template <class Sizes>
Plane inputs_of(const Sizes& p) {
  return {static_cast<int>(p.H), static_cast<int>(p.W), p.channels};
}
template <class Sizes>
Plane outputs_of(const Sizes& p) {
  return {static_cast<int>(p.OH), static_cast<int>(p.OW), p.channels};
}

/// Calls `function(pack size, index)` for one thread per pack of [planes, rows, columns]; `largest` is another number
/// to divide.
template <class T, class Function>
void with_packs(std::int64_t planes, std::int64_t rows, std::int64_t columns, bool packable, std::int64_t largest,
                Function function) {
  constexpr int V = pack_size<T>;
  const std::int64_t n = planes * rows * columns;
  if (packable && std::max(n / V, largest) < (std::int64_t{1} << 31))
    function(std::integral_constant<int, V>{}, std::uint32_t{});
  else
    with_index(std::max(n, largest), [&](auto zero) { function(std::integral_constant<int, 1>{}, zero); });
}

template <class T, class... Pointer>
bool packable(std::int64_t channels, const Pointer*... pointers) {
  constexpr int V = pack_size<T>;
  return channels % V == 0 && (aligned<V>(pointers) && ...);
}

inline Grid looping_grid(std::int64_t n) {
  const unsigned threads = threads_for(n);
  return Grid(blocks_for(n, threads), threads);
}
/// A thread for each item.
inline Grid whole_grid(std::int64_t n) {
  const unsigned threads = threads_for(n);
  return Grid(static_cast<unsigned>(ceil_div(n, threads)), threads);
}

/// Whether each output is the mean of a plane.
inline bool one_per_plane(const Pool2d& p) {
  return p.OH == 1 && p.OW == 1 && p.KH == p.H && p.KW == p.W && p.pad_h == 0 && p.pad_w == 0;
}
inline bool one_per_plane(const AdaptivePool2d& p) { return p.OH == 1 && p.OW == 1; }

/// Whether the kernels for usual windows can count this in 32 bits.
inline bool small(const Pool2d& p) {
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  const std::int64_t area = (p.H + p.KH) * (p.W + p.KW);
  return p.planes / 2 * area < limit && p.channels * area < limit;
}

}  // namespace tern::cuda::channels_last
