#pragma once
// What the files for AVX-512 with VNNI share. No function here has external linkage: a linker could otherwise use such
// a file's version for the whole program.

#include <immintrin.h>

#include "vectorized/quantized/kernels.hpp"

namespace tern::vectorized::int8 {

void depthwise512(const DepthwiseRow& row);  // in depthwise512.cpp

namespace {

inline __mmask16 first_lanes(std::int64_t count) {
  return count >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1U << (count < 0 ? 0 : count)) - 1U);
}

/// What follows on 16 sums times their scale, the constants in registers.
struct Finish {
  __m512 low, high, other_scale;
  __m512i zero, other_zero;
  std::uint8_t* y;
  float* real;
  const std::uint8_t* other;

  template <class Target>
  explicit Finish(const Target& target)
      : low(_mm512_set1_ps(target.rescale.low)),
        high(_mm512_set1_ps(target.rescale.high)),
        other_scale(_mm512_set1_ps(target.rescale.other_scale)),
        zero(_mm512_set1_epi32(target.rescale.zero)),
        other_zero(_mm512_set1_epi32(target.rescale.other_zero)),
        y(target.y),
        real(target.real),
        other(target.other) {}

  /// Results as int32.
  __m512i stored(__m512 t) const {
    t = _mm512_min_ps(_mm512_max_ps(t, low), high);  // the second operand if NaN
    return _mm512_add_epi32(_mm512_cvtps_epi32(t), zero);
  }
  void operator()(__m512i sums, __m512 scale, std::int64_t at, __mmask16 lanes) const {
    write(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale), at, lanes);
  }
  void write(__m512 t, std::int64_t at, __mmask16 lanes) const {
    if (other != nullptr) {
      const __m512i stored = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes, other + at));
      t = _mm512_add_ps(t, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(stored, other_zero)), other_scale));
    }
    if (real != nullptr)
      _mm512_mask_storeu_ps(real + at, lanes, _mm512_min_ps(_mm512_max_ps(t, low), high));
    else
      _mm512_mask_cvtepi32_storeu_epi8(y + at, lanes, stored(t));
  }
};

}  // namespace
}  // namespace tern::vectorized::int8
