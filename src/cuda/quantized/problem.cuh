#pragma once
// One convolution of stored numbers, as its algorithms see it (convolution.cu lists them).

#include "cuda/choice.cuh"
#include "cuda/implicit_tiles.cuh"
#include "cuda/quantized/rescale.cuh"

namespace tern::cuda::eight_bits {

/// What the choice reads. Sums of integers have the same bits in any order, so no choice changes a result.
struct Problem : kernels::Conv2d {
  std::uint32_t x = 0, weight = 0;  ///< alignment_of the arrays
  bool whole = false;               ///< Fours may be used
  std::uint32_t results = 1;        ///< adjacent results that one access may read and write
  bool padded_with_zeros = false;   ///< or not padded
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

/// Implicit matrix products on tensor cores, without groups: whose threads copy the factors (implicit.cu), and for
/// whom the card's copy engine does (boxes.cu).
extern const Algorithm implicit, boxes;
/// Four channels of a window per thread: each channel is a group with one output (depthwise.cu).
extern const Algorithm depthwise;

/// Four output channels, from o on: what `finish` does for single ones. y, real and other are at four elements, bias
/// and scale at 16 bytes.
class Fours {
 public:
  __device__ __forceinline__ Fours(const QuantizedArrays& arrays, const Rescale& rescale, int o)
      : arrays_(arrays), rescale_(rescale) {
    const int4 bias = *reinterpret_cast<const int4*>(arrays.bias + o);
    const float4 scale = *reinterpret_cast<const float4*>(arrays.scale + o);
    bias_[0] = bias.x, bias_[1] = bias.y, bias_[2] = bias.z, bias_[3] = bias.w;
    scale_[0] = scale.x, scale_[1] = scale.y, scale_[2] = scale.z, scale_[3] = scale.w;
  }
  /// Of `other`, at the place of the first channel.
  __device__ __forceinline__ std::uint32_t fetch(std::int64_t at) const {
    return arrays_.other == nullptr ? 0 : *reinterpret_cast<const std::uint32_t*>(arrays_.other + at);
  }
  __device__ __forceinline__ void finish(std::int64_t at, const std::int32_t (&sums)[4], std::uint32_t added) const {
    float t[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto whole =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) + static_cast<std::uint32_t>(bias_[i]));
      t[i] = __fmul_rn(__int2float_rn(whole), scale_[i]);
      const auto beside = static_cast<std::uint8_t>(added >> (8 * i));
      if (arrays_.other != nullptr) t[i] = __fadd_rn(t[i], worth(beside, rescale_.other_zero, rescale_.other_scale));
    }
    if (arrays_.real != nullptr) {
      *reinterpret_cast<float4*>(arrays_.real + at) = {bounded(t[0], rescale_), bounded(t[1], rescale_),
                                                       bounded(t[2], rescale_), bounded(t[3], rescale_)};
      return;
    }
    std::uint32_t four = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) four |= static_cast<std::uint32_t>(stored(t[i], rescale_)) << (8 * i);
    *reinterpret_cast<std::uint32_t*>(arrays_.y + at) = four;
  }

 private:
  const QuantizedArrays& arrays_;
  const Rescale& rescale_;
  std::int32_t bias_[4];
  float scale_[4];
};

/// Whether Fours may be used from multiples of four channels on.
inline bool finishes_fours(const Problem& problem, const QuantizedArrays& arrays) {
  const auto at = [](const void* pointer, std::uintptr_t bytes) {
    return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
  };
  return problem.O % 4 == 0 && problem.pitch() % 4 == 0 && at(arrays.y, 4) && at(arrays.real, 16) &&
         at(arrays.other, 4) && at(arrays.bias, 16) && at(arrays.scale, 16);
}

/// Up to 16 results.
inline std::uint32_t results_at_once(const Problem& problem, const QuantizedArrays& arrays) {
  const auto numbers = [](const void* pointer, std::uint32_t bytes) {
    const std::uint32_t alignment = alignment_of(pointer);
    return alignment == 0 ? 16 : std::max(alignment / bytes, 1u);
  };
  std::uint32_t most = std::min({numbers(arrays.y, 1), numbers(arrays.other, 1), 16u});
  if (arrays.real != nullptr && alignment_of(arrays.real) < 16) most = 1;
  while (problem.pitch() % most != 0) most /= 2;
  return most;
}

}  // namespace tern::cuda::eight_bits
