#pragma once
// Convolutions with one input channel per output channel, channels last: lanes are channels.

#include <cstdint>

#include "tern/kernels/activation.hpp"

namespace tern::vectorized::convolution {

/// One tap of a kernel: the offset of its input from the first output's, and the offset of its weights. In elements.
struct DepthwiseTap {
  std::int64_t in = 0, weight = 0;
};

/// A run of outputs with the same taps: out[r] = activation(bias + sum over the taps of in[r] * weight), for each
/// channel.
template <class T>
struct DepthwiseRun {
  T* out = nullptr;
  const T* in = nullptr;
  const T* mask = nullptr;  ///< has the layout of `in`, which counts as 0 where this is 0 or less; or null
  const T* weights = nullptr;
  const T* bias = nullptr;  ///< or null
  const DepthwiseTap* taps = nullptr;
  std::int64_t tap_count = 0, outputs = 0, channels = 0;
  std::int64_t out_step = 0, in_step = 0;   ///< elements from one output to the next, and from its inputs to the next's
  std::int64_t ahead = 0, first_ahead = 0;  ///< what the taps from that one on read next: so far behind; or 0
  kernels::Activation activation = kernels::Activation::none;
};

/// sums[tap] += the sum over the positions of in * g, for each channel; the taps are those of one row of the kernel.
template <class T>
struct DepthwiseGradient {
  T* sums = nullptr;
  const T *in = nullptr, *g = nullptr;
  const T* mask = nullptr;  ///< has the layout of g
  std::int64_t tap_count = 0, positions = 0, channels = 0;
  std::int64_t in_step = 0, g_step = 0;     ///< elements from one position to the next
  std::int64_t tap_step = 0, sum_step = 0;  ///< elements from one tap's input, and from its sums, to the next's
};

template <class T>
struct DepthwiseKernels {
  std::int64_t lanes;      ///< elements of a vector
  std::int64_t most_taps;  ///< of a DepthwiseGradient
  void (*run)(const DepthwiseRun<T>&);
  void (*gradient)(const DepthwiseGradient<T>&);
};

template <class T>
const DepthwiseKernels<T>& depthwise_kernels();
template <>
const DepthwiseKernels<float>& depthwise_kernels<float>();
template <>
const DepthwiseKernels<double>& depthwise_kernels<double>();

}  // namespace tern::vectorized::convolution
