#pragma once
// Winograd's convolution F(m x m, r x r): squares ("tiles") of m x m outputs of an r x r kernel take (m + r - 1)^2
// products per channel instead of m^2 r^2. The transforms are small linear maps on both sides of a square of pixels;
// lanes are channels. A square in the transformed space has (m + r - 1)^2 elements, the frequencies, in separate
// arrays, so that the products are one matrix product per frequency.

#include <cstdint>
#include <limits>

namespace tern::vectorized::convolution {

/// `count` squares of vectors, one after another: element (i, j) of channel 0 of square n is at data + n * step + i *
/// row + j * column.
template <class T>
struct Squares {
  T* data = nullptr;
  std::int64_t row = 0, column = 0, step = 0;
};

/// The operands of a transform, for a whole number of vectors of channels.
template <class T>
struct Transform {
  Squares<T> out;
  Squares<const T> in;
  std::int64_t count = 1, channels = 0;
  const T* bias = nullptr;  ///< of as many channels, or null; only for outputs
  bool relu = false;
  T top = std::numeric_limits<T>::infinity();  ///< with relu: what larger outputs become
};

template <class T>
struct WinogradKernels {
  std::int64_t outputs, taps;                                   ///< m and r
  std::int64_t size() const { return outputs + taps - 1; }      ///< the side of a tile
  std::int64_t frequencies() const { return size() * size(); }  ///< of a tile

  /// Returns whether every result is finite; frequencies are not checked.
  using Kernel = bool (*)(const Transform<T>&);
  Kernel input;            ///< pixels [size, size] -> frequencies
  Kernel output;           ///< frequencies -> outputs [m, m], with bias and relu
  Kernel weight;           ///< weights [r, r] -> frequencies
  Kernel gradient;         ///< the gradient of outputs [m, m] -> frequencies
  Kernel weight_gradient;  ///< frequencies -> the gradient of weights [r, r]
};

/// The kernels for weights [taps, taps]; null if there are none.
template <class T>
const WinogradKernels<T>* winograd_kernels(std::int64_t taps);
template <>
const WinogradKernels<float>* winograd_kernels<float>(std::int64_t taps);
template <>
const WinogradKernels<double>* winograd_kernels<double>(std::int64_t taps);

}  // namespace tern::vectorized::convolution
