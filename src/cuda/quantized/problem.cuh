#pragma once
// One convolution of stored numbers, as its algorithms see it (convolution.cu lists them).

#include "cuda/choice.cuh"
#include "cuda/implicit_tiles.cuh"
#include "cuda/quantized/rescale.cuh"

namespace tern::cuda::eight_bits {

/// What the choice reads. Sums of integers have the same bits in any order, so no choice changes a result.
struct Problem : kernels::Conv2d {
  std::uint32_t x = 0, weight = 0;  ///< alignment_of the arrays
  bool whole = false;               ///< finish_fours() may be used
  int device = 0;
  auto operator<=>(const Problem&) const = default;

  std::int64_t positions() const { return N * OH * OW; }
  std::int64_t length() const { return KH * KW * (C / groups); }  ///< of a sum
  std::int64_t pitch() const { return y_channels == 0 ? O : y_channels; }
  /// Whether places in the arrays are counted in 32 bits.
  bool small() const { return implicit_tiles::counts(*this, 1) && positions() * pitch() < std::int64_t{1} << 31; }
};

struct Arrays {
  QuantizedArrays of;
  Rescale rescale;
};

using Algorithm = cuda::Algorithm<Problem, Arrays>;

std::string text_of(const Problem& problem);

/// An implicit matrix product on tensor cores, without groups (implicit.cu).
extern const Algorithm implicit;
/// Four channels of a window per thread: each channel is a group with one output (depthwise.cu).
extern const Algorithm depthwise;

/// What `finish` does for four channels at once. y, real and other are at four elements, bias and scale at 16 bytes.
__device__ __forceinline__ void finish_fours(const QuantizedArrays& arrays, const std::int32_t (&sums)[4],
                                             std::int64_t at, std::int64_t o, const Rescale& rescale) {
  const int4 bias = *reinterpret_cast<const int4*>(arrays.bias + o);
  const float4 scale = *reinterpret_cast<const float4*>(arrays.scale + o);
  const std::uint32_t added = arrays.other == nullptr ? 0 : *reinterpret_cast<const std::uint32_t*>(arrays.other + at);
  const std::int32_t biases[4]{bias.x, bias.y, bias.z, bias.w};
  const float scales[4]{scale.x, scale.y, scale.z, scale.w};
  float t[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto whole =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) + static_cast<std::uint32_t>(biases[i]));
    t[i] = __fmul_rn(__int2float_rn(whole), scales[i]);
    const auto beside = static_cast<std::uint8_t>(added >> (8 * i));
    if (arrays.other != nullptr) t[i] = __fadd_rn(t[i], worth(beside, rescale.other_zero, rescale.other_scale));
  }
  if (arrays.real != nullptr) {
    *reinterpret_cast<float4*>(arrays.real + at) = {bounded(t[0], rescale), bounded(t[1], rescale),
                                                    bounded(t[2], rescale), bounded(t[3], rescale)};
    return;
  }
  std::uint32_t four = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) four |= static_cast<std::uint32_t>(stored(t[i], rescale)) << (8 * i);
  *reinterpret_cast<std::uint32_t*>(arrays.y + at) = four;
}

/// Whether finish_fours() may be used for outputs that begin at multiples of four channels.
inline bool finishes_fours(const Problem& problem, const QuantizedArrays& arrays) {
  const auto at = [](const void* pointer, std::uintptr_t bytes) {
    return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
  };
  return problem.O % 4 == 0 && problem.pitch() % 4 == 0 && at(arrays.y, 4) && at(arrays.real, 16) &&
         at(arrays.other, 4) && at(arrays.bias, 16) && at(arrays.scale, 16);
}

}  // namespace tern::cuda::eight_bits
