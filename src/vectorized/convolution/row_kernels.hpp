#pragma once
// Channels-last images, and the patches that convolutions with channels in their lanes cut out of them.

#include <cstdint>

#include "vectorized/convolution/problem.hpp"

namespace tern::vectorized::convolution {

template <class T>
struct RowKernels {
  /// out [positions, out_pitch] = in, in whole vectors, with zeros after the channels. If `mask` is not null, elements
  /// whose counterpart there is 0 or less become 0.
  void (*copy)(T* out, std::int64_t out_pitch, const T* in, const T* mask, std::int64_t in_pitch,
               std::int64_t positions, std::int64_t channels);
  /// The same into panels of `width` channels (a whole number of vectors), `panel` elements apart, each with
  /// consecutive positions. Panels are padded with zeros.
  void (*copy_panels)(T* out, std::int64_t width, std::int64_t panel, const T* in, const T* mask, std::int64_t in_pitch,
                      std::int64_t positions, std::int64_t channels);
  /// The patches of an image, one row per output position, with the kernel's rows adjacent in it, each [KW, C]: rows
  /// [first_row, last_row) of the kernel at positions first ... first + count, in rows of `out_row` elements.
  void (*gather)(T* out, std::int64_t out_row, const T* image, const Problem& problem, std::int64_t first_row,
                 std::int64_t last_row, std::int64_t first, std::int64_t count);
  /// The inverse: adds gathered rows to an image.
  void (*scatter)(T* image, const T* in, std::int64_t in_row, const Problem& problem, std::int64_t first_row,
                  std::int64_t last_row, std::int64_t first, std::int64_t count);
};

template <class T>
const RowKernels<T>& row_kernels();
template <>
const RowKernels<float>& row_kernels<float>();
template <>
const RowKernels<double>& row_kernels<double>();

}  // namespace tern::vectorized::convolution
