#pragma once
// Depthwise convolutions of stride 1, channels last: adjacent outputs of a row, which share their inputs.

#include <cstdint>

#include "tern/kernels/activation.hpp"
#include "vectorized/convolution/depthwise_kernels.hpp"

namespace tern::vectorized::convolution {

/// For each channel out[r] = activation(bias + sum over the rows and k < taps of in[stride * r + k] * weight[k]), where
/// the inputs that lie outside of the image are skipped.
template <class T>
struct DepthwiseLine {
  T* out = nullptr;
  const T* in = nullptr;  ///< the first output's first input, which may lie outside
  const T* weights = nullptr;
  const T* bias = nullptr;                           ///< or null
  const DepthwiseTap* rows = nullptr;                ///< where the rows of the kernel and their inputs begin
  std::int64_t row_count = 0, taps = 0, stride = 1;  ///< 1 or 2
  std::int64_t outputs = 0, channels = 0;
  std::int64_t out_step = 0, in_step = 0, weight_step = 0;  ///< elements from one output, input or tap to the next
  std::int64_t ahead = 0;    ///< elements from the last row of inputs to one that will be read next, or 0
  std::uint64_t inside = 0;  ///< bit j: input j lies in the image
  kernels::Activation activation = kernels::Activation::none;
};

template <class T>
struct DepthwiseLineKernels {
  std::int64_t most_outputs;
  void (*run)(const DepthwiseLine<T>&);
};
template <class T>
const DepthwiseLineKernels<T>& depthwise_line_kernels();

/// Whether there are kernels for rows of so many taps and this stride.
constexpr bool depthwise_line_fits(std::int64_t taps, std::int64_t stride) {
  return taps % 2 == 1 && taps <= 9 && taps >= (stride == 1 ? 3 : 5) && stride <= 2;
}

}  // namespace tern::vectorized::convolution
