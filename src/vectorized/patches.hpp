#pragma once
// The patches that a convolution multiplies by its weights, one row per (channel, kernel row, kernel column), one
// column per output position: cut out of an image block by block, straight into the buffers of a product.

#include <cstdint>

#include "tern/kernels/conv.hpp"

namespace tern::vectorized {

/// An image [channels, height, width] that already has its padding; up to one vector behind its end is readable.
template <class T>
struct Patches {
  const T* image = nullptr;
  std::int64_t height = 0, width = 0;
  std::int64_t KH = 1, KW = 1, OW = 1;
  std::int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
};

template <class T>
struct PatchKernels {
  /// out[row - first_row, i] = row `row` of the patches at position first_position + i, i in [0, count), count <=
  /// most_positions; `out_row` is out's stride. Writes up to one vector behind the last row.
  void (*cut)(T* out, std::int64_t out_row, const Patches<T>& patches, std::int64_t first_row, std::int64_t rows,
              std::int64_t first_position, std::int64_t count);
  /// The opposite: adds patches [KH * KW, OH * OW of output rows first_oh...] of one channel to its plane [H, W].
  void (*paste)(T* plane, const T* patches, std::int64_t patch_row, const kernels::Conv2d& shape, std::int64_t first_oh,
                std::int64_t last_oh);
};
inline constexpr std::int64_t most_positions = 1024;

template <class T>
const PatchKernels<T>& patch_kernels();

}  // namespace tern::vectorized
