#pragma once
// Convolutions of channels-first images whose taps are read where they lie: lanes are output positions.

#include <cstdint>
#include <limits>

namespace tern::vectorized::convolution {

/// out[o][p] = bias[o] + the sum over k of weights[o][k] * in[offsets[k] + p], in increasing k by one chain of fused
/// multiply-adds; then relu, up to `top`.
template <class T>
struct DirectBlock {
  T* out = nullptr;
  std::int64_t out_row = 0;  ///< elements from an output to the next
  const T* in = nullptr;
  const std::int64_t* offsets = nullptr;
  const T* weights = nullptr;
  std::int64_t weight_row = 0;
  const T* bias = nullptr;  ///< or null
  std::int64_t outputs = 0, taps = 0, positions = 0;
  bool relu = false;
  T top = std::numeric_limits<T>::infinity();  ///< with relu: what larger results become
};

template <class T>
struct DirectKernels {
  void (*run)(const DirectBlock<T>&);
  /// out[i] = in[2 i] for i in [0, n).
  void (*copy_every_second)(T* out, const T* in, std::int64_t n);
};

template <class T>
const DirectKernels<T>& direct_kernels();

}  // namespace tern::vectorized::convolution
