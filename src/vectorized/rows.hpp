#pragma once
// Images whose channels lie side by side, and what convolutions that have channels in their lanes cut out of them.

#include <algorithm>
#include <cstdint>

#include "tern/kernels/conv.hpp"
#include "vectorized/winograd.hpp"

namespace tern::vectorized {

/// Some channels of one image [H, W, pixel]: element c of a position is `pixel` elements from that of the next one.
template <class T>
struct Pixels {
  const T* data = nullptr;
  const T* saved = nullptr;  ///< elements whose counterpart here is 0 or less count as 0 (a gradient of relu); or null
  std::int64_t pixel = 0, channels = 0, H = 0, W = 0;
};

/// The patches of an image under a kernel, one row per output position, the kernel's rows side by side in it, each [KW,
/// channels].
template <class T>
struct Gather {
  Pixels<T> image;  ///< `saved` is not looked at
  std::int64_t KW = 1, OW = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
};

template <class T>
struct RowKernels {
  /// out [positions, out_pixel] = in, whole vectors: zeros behind the channels.
  void (*copy)(T* out, std::int64_t out_pixel, const T* in, const T* saved, std::int64_t in_pixel,
               std::int64_t positions, std::int64_t channels);
  /// The same into panels of `width` channels (a whole number of vectors), `panel` elements apart, in each of which
  /// positions follow each other. Panels are filled up with zeros.
  void (*copy_panels)(T* out, std::int64_t width, std::int64_t panel, const T* in, const T* saved,
                      std::int64_t in_pixel, std::int64_t positions, std::int64_t channels);
  /// Rows [first_row, last_row) of the kernel at positions first ... first + count, in rows of `out_row` elements.
  void (*gather)(T* out, std::int64_t out_row, const Gather<T>& patches, std::int64_t first_row, std::int64_t last_row,
                 std::int64_t first, std::int64_t count);
  /// The opposite: adds gathered rows to an image [H, W, pixel] of which `patches` has the sizes.
  void (*scatter)(T* image, const T* in, std::int64_t in_row, const Gather<T>& patches, std::int64_t first_row,
                  std::int64_t last_row, std::int64_t first, std::int64_t count);
};

template <class T>
const RowKernels<T>& row_kernels();

/// A part of an image in scratch memory, [rows, width, stride]: its row 0 is row `first_row` of the image and its
/// column 0 is column `first_column` (negative in the padding). `stride` is a whole number of vectors.
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
      const std::int64_t at = (h * from.W + first_column + begin) * from.pixel;
      row_kernels<T>().copy(to + begin * stride, stride, from.data + at,
                            from.saved == nullptr ? nullptr : from.saved + at, from.pixel, end - begin, from.channels);
      std::fill_n(to + end * stride, (width - end) * stride, T{0});
    }
  }
};

}  // namespace tern::vectorized
