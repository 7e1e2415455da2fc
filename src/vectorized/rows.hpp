#pragma once
// Images with the channels of a pixel side by side, cut out of planes [channels, H, W] into scratch memory: what a
// convolution whose lanes are channels works on.

#include <algorithm>
#include <cstdint>

#include "vectorized/gemm.hpp"
#include "vectorized/winograd.hpp"

namespace tern::vectorized {

/// Channels of one image, as planes one after another.
template <class T>
struct Planes {
  const T* data = nullptr;
  const T* saved = nullptr;  ///< elements whose counterpart here is 0 or less count as 0 (a gradient of relu); or null
  std::int64_t channels = 0, H = 0, W = 0;
};

/// A part of an image, [rows, width, stride]: its row 0 is row `first_row` of the image and its column 0 is column
/// `first_column` (negative in the padding). `stride` elements per pixel, of which the first hold channels.
template <class T>
struct Window {
  T* data = nullptr;
  std::int64_t first_row = 0, first_column = 0;
  std::int64_t rows = 0, width = 0, stride = 0;

  /// Squares of pixels side by side, `step` apart, from the row `row` and the channel `channel` on.
  Squares<T> pixels(std::int64_t row, std::int64_t step, std::int64_t channel = 0) const {
    return {data + row * width * stride + channel, width * stride, stride, step * stride};
  }
  Squares<const T> squares(std::int64_t row, std::int64_t step, std::int64_t channel = 0) const {
    const Squares<T> same = pixels(row, step, channel);
    return {same.data, same.row, same.column, same.step};
  }

  /// Zeros stand outside the image and behind the channels.
  void fill(const Planes<T>& from) const {
    const auto& gemm = gemm_kernels<T>();
    const std::int64_t begin = std::clamp<std::int64_t>(-first_column, 0, width);
    const std::int64_t end = std::clamp<std::int64_t>(from.W - first_column, begin, width);
    const std::int64_t top = std::clamp<std::int64_t>(-first_row, 0, rows);
    const std::int64_t bottom = begin == end ? top : std::clamp<std::int64_t>(from.H - first_row, top, rows);
    const std::int64_t line = width * stride;
    std::fill_n(data, top * line, T{0});
    std::fill_n(data + bottom * line, (rows - bottom) * line, T{0});
    for (std::int64_t r = top; r < bottom; ++r) {
      std::fill_n(data + r * line, begin * stride, T{0});
      std::fill_n(data + r * line + end * stride, (width - end) * stride, T{0});
      if (stride > from.channels)
        for (std::int64_t i = begin; i < end; ++i)
          std::fill(data + r * line + i * stride + from.channels, data + r * line + (i + 1) * stride, T{0});
    }
    // A vector of channels at a time, whose rows are long runs in the planes.
    for (std::int64_t c = 0; c < from.channels; c += gemm.lanes)
      for (std::int64_t r = top; r < bottom; ++r) {
        const std::int64_t at = (c * from.H + first_row + r) * from.W + first_column + begin;
        gemm.transpose(data + r * line + begin * stride + c, stride, from.data + at, from.H * from.W,
                       from.saved == nullptr ? nullptr : from.saved + at, std::min(gemm.lanes, from.channels - c),
                       end - begin);
      }
  }

  /// The opposite: pixels that lie in the image go to planes [channels, H, W].
  void copy_to(T* planes, std::int64_t channels, std::int64_t H, std::int64_t W) const {
    const std::int64_t last = std::min(first_row + rows, H), columns = std::min(width, W);
    const auto& transpose = gemm_kernels<T>().transpose;
    if (width == W) {
      transpose(planes + first_row * W, H * W, data, stride, nullptr, (last - first_row) * W, channels);
      return;
    }
    for (std::int64_t h = first_row; h < last; ++h)
      transpose(planes + h * W, H * W, data + (h - first_row) * width * stride, stride, nullptr, columns, channels);
  }
};

}  // namespace tern::vectorized
