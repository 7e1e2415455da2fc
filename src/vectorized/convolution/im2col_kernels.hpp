#pragma once
// The patches that a convolution multiplies by its weights, one row per (channel, kernel row, kernel column), one
// column per output position: cut out of an image block by block, directly into the buffers of a product.

#include <cstdint>

#include "vectorized/convolution/problem.hpp"
#include "vectorized/ranges.hpp"

namespace tern::vectorized::convolution {

template <class T>
struct Im2colKernels {
  /// Some rows of the patches at some positions, at most most_positions. The image includes its padding; nothing from
  /// `end` on is read. Up to one vector after the last row is written.
  void (*cut)(Pitched<T> out, const T* image, const T* end, const Problem& problem, Range rows, Range positions);
  /// The inverse: adds patches [KH * KW, positions of some output rows] of one channel to its plane [H, W].
  void (*paste)(T* plane, Pitched<const T> patches, const Problem& problem, Range output_rows);
};
inline constexpr std::int64_t most_positions = 1024;

template <class T>
const Im2colKernels<T>& im2col_kernels();

}  // namespace tern::vectorized::convolution
