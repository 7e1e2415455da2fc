#pragma once
// The arithmetic of kernels/quantized.hpp: every operation rounds once, which the intrinsics say.

#include "cuda/support.cuh"
#include "tern/kernels/quantized.hpp"

namespace tern::cuda {

using kernels::Rescale;

__device__ __forceinline__ float bounded(float t, const Rescale& rescale) {
  t = t > rescale.low ? t : rescale.low;
  return t < rescale.high ? t : rescale.high;
}

__device__ __forceinline__ std::uint8_t stored(float t, const Rescale& rescale) {
  return static_cast<std::uint8_t>(__float2int_rn(bounded(t, rescale)) + rescale.zero);
}

__device__ __forceinline__ float worth(std::uint8_t number, std::int32_t zero, float scale) {
  return __fmul_rn(__int2float_rn(static_cast<std::int32_t>(number) - zero), scale);
}

/// The arrays of a convolution; y or real is null.
struct QuantizedArrays {
  std::uint8_t* y;
  float* real;
  const std::uint8_t* x;
  const std::int8_t* weight;
  const std::int32_t* bias;
  const float* scale;
  const std::uint8_t* other;
};

/// Writes the result of a sum without its bias: `at` is its place, o its channel.
__device__ __forceinline__ void finish(const QuantizedArrays& arrays, std::int32_t sum, std::int64_t at, std::int64_t o,
                                       const Rescale& rescale) {
  const auto whole =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) + static_cast<std::uint32_t>(arrays.bias[o]));
  float t = __fmul_rn(__int2float_rn(whole), arrays.scale[o]);
  if (arrays.other != nullptr) t = __fadd_rn(t, worth(arrays.other[at], rescale.other_zero, rescale.other_scale));
  if (arrays.real != nullptr)
    arrays.real[at] = bounded(t, rescale);
  else
    arrays.y[at] = stored(t, rescale);
}

/// A convolution of stored numbers (convolution.cu).
void quantized_convolution(Context& context, const QuantizedArrays& arrays, const kernels::Conv2d& sizes,
                           const Rescale& rescale);

}  // namespace tern::cuda
