#pragma once
// The patches that a convolution multiplies by its weights, one row per (channel, kernel row, kernel column), one
// column per output position: cut out of an image block by block, directly into the buffers of a product.

#include <cstdint>

#include "vectorized/convolution/problem.hpp"

namespace tern::vectorized::convolution {

template <class T>
struct Im2colKernels {
  /// out[row - first_row, i] = row `row` of the patches at position first_position + i, i in [0, count), count <=
  /// most_positions; `out_row` is out's stride. The image includes its padding; nothing from `end` on is read. Up to
  /// one vector after the last row is written.
  void (*cut)(T* out, std::int64_t out_row, const T* image, const T* end, const Problem& problem,
              std::int64_t first_row, std::int64_t rows, std::int64_t first_position, std::int64_t count);
  /// The inverse: adds patches [KH * KW, OH * OW of output rows first_oh...] of one channel to its plane [H, W].
  void (*paste)(T* plane, const T* patches, std::int64_t patch_row, const Problem& problem, std::int64_t first_oh,
                std::int64_t last_oh);
};
inline constexpr std::int64_t most_positions = 1024;

template <class T>
const Im2colKernels<T>& im2col_kernels();

}  // namespace tern::vectorized::convolution
