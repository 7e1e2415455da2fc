#pragma once
// What both files of Winograd's convolutions share: how tiles are cut out of images, and what that costs.

#include <algorithm>
#include <cstdint>

#include "tern/kernels/conv.hpp"
#include "vectorized/rows.hpp"

namespace tern::vectorized {

// Elements between the frequencies' arrays, so that equal places in them do not meet in the cache.
inline constexpr std::int64_t apart = 16;
// Tiles that are multiplied at a time.
inline constexpr std::int64_t most_tiles = 128;
// Rough cycles, per frequency and vector: to cut out and transform an element of a tile; of a product with a number.
inline constexpr double transform_cycles = 9, product_cycles = 0.58;

/// Calls body(image, first tile row in the image, tile rows, number of the first tile) for the images' parts of tile
/// rows [first, last), which count through all images.
template <class Body>
void for_pieces(std::int64_t first, std::int64_t last, std::int64_t tile_rows, std::int64_t tile_columns,
                const Body& body) {
  for (std::int64_t item = first; item < last;) {
    const std::int64_t row = item % tile_rows, count = std::min(tile_rows - row, last - item);
    body(item / tile_rows, row, count, (item - first) * tile_columns);
    item += count;
  }
}

/// Squares of pixels of image n as the pixels of a window that begins with the first column of squares.
template <class T>
void fill_folded(const Window<T>& window, const T* x, std::int64_t n, const kernels::Conv2d& unfolded) {
  const std::int64_t side = unfolded.stride_h;
  const Gather<T> squares{.image = {.data = x + n * unfolded.H * unfolded.W * unfolded.C,
                                    .pixel = unfolded.C,
                                    .channels = unfolded.C,
                                    .H = unfolded.H,
                                    .W = unfolded.W},
                          .KW = side,
                          .OW = window.width,
                          .stride_h = side,
                          .stride_w = side,
                          .pad_h = unfolded.pad_h,
                          .pad_w = unfolded.pad_w};
  const std::int64_t positions = window.rows * window.width, channels = side * side * unfolded.C;
  for (std::int64_t p = 0; channels < window.stride && p < positions; ++p)
    std::fill(window.data + p * window.stride + channels, window.data + (p + 1) * window.stride, T{0});
  row_kernels<T>().gather(window.data, window.stride, squares, 0, side, window.first_row * window.width, positions);
}

}  // namespace tern::vectorized
