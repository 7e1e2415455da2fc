#pragma once
// Shared by both Winograd files: how tiles are cut out of images, and the cost.

#include <algorithm>
#include <cstdint>

#include "vectorized/convolution/algorithm.hpp"
#include "vectorized/convolution/row_kernels.hpp"
#include "vectorized/convolution/winograd_kernels.hpp"

namespace tern::vectorized::convolution {

// Elements between the frequencies' arrays, so that equal places in them do not collide in the cache.
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

/// Some channels of one image [H, W]: element c of a position is `pitch` elements from that of the next one, and `row`
/// elements from that of the one below.
template <class T>
struct Pixels {
  const T* data = nullptr;
  const T* mask = nullptr;  ///< as in Arrays
  std::int64_t pitch = 0, row = 0, channels = 0, H = 0, W = 0;
};

/// A part of an image in scratch memory, [rows, width, stride]: its row 0 is row `first_row` of the image and its
/// column 0 is column `first_column` (negative in the padding). `stride` is a whole number of vectors.
template <class T>
struct Window {
  T* data = nullptr;
  std::int64_t first_row = 0, first_column = 0;
  std::int64_t rows = 0, width = 0, stride = 0;

  /// Adjacent squares of pixels, `step` apart, from the row `row` and the channel `channel` on.
  Squares<const T> squares(std::int64_t row, std::int64_t step, std::int64_t channel = 0) const {
    return {data + row * width * stride + channel, width * stride, stride, step * stride};
  }

  /// With zeros outside the image and after the channels.
  void fill(const Pixels<T>& from) const {
    const std::int64_t begin = std::clamp<std::int64_t>(-first_column, 0, width);
    const std::int64_t end = std::clamp<std::int64_t>(from.W - first_column, begin, width);
    for (std::int64_t r = 0; r < rows; ++r) {
      T* const to = data + r * width * stride;
      const std::int64_t h = first_row + r;
      if (h < 0 || h >= from.H) {
        std::fill_n(to, width * stride, T{0});
        continue;
      }
      std::fill_n(to, begin * stride, T{0});
      const std::int64_t at = h * from.row + (first_column + begin) * from.pitch;
      row_kernels<T>().copy({to + begin * stride, stride}, {from.data + at, from.pitch},
                            from.mask == nullptr ? nullptr : from.mask + at, end - begin, from.channels);
      std::fill_n(to + end * stride, (width - end) * stride, T{0});
    }
  }

  /// Image n of x: its squares, starting with the window's first column, as pixels.
  void fill_space_to_depth(const T* x, std::int64_t n, const Problem& strided) const {
    Problem squares = strided;
    squares.KW = strided.stride_h;
    squares.OW = width;
    const std::int64_t positions = rows * width, channels = squares.KW * squares.KW * strided.C;
    for (std::int64_t p = 0; channels < stride && p < positions; ++p)
      std::fill(data + p * stride + channels, data + (p + 1) * stride, T{0});
    row_kernels<T>().gather({data, stride}, x + n * strided.plane() * strided.C, squares, {0, squares.KW},
                            {first_row * width, first_row * width + positions});
  }
};

/// Rough cycles of the pass on one thread; its kernels must fit.
template <class T>
double grad_weight_cycles(const Problem&);
template <class T>
PlanPointer<T> winograd_grad_weight(const Problem&, const Arrays<T>&);

}  // namespace tern::vectorized::convolution
