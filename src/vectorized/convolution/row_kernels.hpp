#pragma once
// Channels-last images, and the patches that convolutions with channels in their lanes cut out of them.

#include <cstdint>

#include "vectorized/convolution/problem.hpp"
#include "vectorized/ranges.hpp"

namespace tern::vectorized::convolution {

template <class T>
struct RowKernels {
  /// out = in, a row per position, in whole vectors, with zeros after the channels. If `mask` is not null, elements
  /// whose counterpart there is 0 or less become 0; it has the pitch of `in`.
  void (*copy)(Pitched<T> out, Pitched<const T> in, const T* mask, std::int64_t positions, std::int64_t channels);
  /// The same into panels of `width` channels (a whole number of vectors), each with consecutive positions. Panels are
  /// padded with zeros.
  void (*copy_panels)(Pitched<T> panels, std::int64_t width, Pitched<const T> in, const T* mask, std::int64_t positions,
                      std::int64_t channels);
  /// The patches of an image, one row per output position, with the kernel's rows adjacent in it, each [KW, C]: `rows`
  /// of the kernel at some positions.
  void (*gather)(Pitched<T> out, const T* image, const Problem& problem, Range rows, Range positions);
  /// The inverse: adds gathered rows to an image.
  void (*scatter)(T* image, Pitched<const T> in, const Problem& problem, Range rows, Range positions);
};

template <class T>
const RowKernels<T>& row_kernels();
template <>
const RowKernels<float>& row_kernels<float>();
template <>
const RowKernels<double>& row_kernels<double>();

}  // namespace tern::vectorized::convolution
