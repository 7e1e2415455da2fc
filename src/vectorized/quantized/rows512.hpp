#pragma once
// What the files for AVX-512 with VNNI share. No function here has external linkage: a linker could otherwise use such
// a file's version for the whole program.

#include <immintrin.h>

#include "vectorized/quantized/kernels.hpp"

namespace tern::vectorized::int8 {
namespace {

inline __mmask16 first_lanes(std::int64_t count) {
  return count >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1U << (count < 0 ? 0 : count)) - 1U);
}

/// Rescaling of 16 sums, the constants in registers.
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

  void operator()(__m512i sums, __m512 scale, std::int64_t at, __mmask16 lanes) const {
    __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale);
    if (other != nullptr) {
      const __m512i stored = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes, other + at));
      t = _mm512_add_ps(t, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(stored, other_zero)), other_scale));
    }
    t = _mm512_min_ps(_mm512_max_ps(t, low), high);  // the second operand if NaN
    if (real != nullptr)
      _mm512_mask_storeu_ps(real + at, lanes, t);
    else
      _mm512_mask_cvtepi32_storeu_epi8(y + at, lanes, _mm512_add_epi32(_mm512_cvtps_epi32(t), zero));
  }
};

/// The depthwise row of 64 channels, or fewer, from `channel` on, at one position.
inline void depthwise_position(const DepthwiseRow& row, const Finish& finish, std::int64_t channel, std::int64_t p,
                               const __m512* scale, const __mmask16* lanes, __mmask64 bytes) {
  __m512i sum[4];
  for (int q = 0; q < 4; ++q) sum[q] = _mm512_maskz_loadu_epi32(lanes[q], row.bias + channel + 16 * q);
  for (std::int64_t tap = 0; tap < row.taps; tap += 4) {
    const auto load = [&](std::int64_t t) {
      return t < row.taps ? _mm512_maskz_loadu_epi8(bytes, row.x[t] + p * row.step + channel) : _mm512_setzero_si512();
    };
    // Bytes of four taps beside each other, within lanes of 16: part q has the channels 4 q ... of each lane.
    const __m512i a = load(tap), b = load(tap + 1), c = load(tap + 2), d = load(tap + 3);
    const __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
    const __m512i cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
    const __m512i parts[4]{_mm512_unpacklo_epi16(ab_low, cd_low), _mm512_unpackhi_epi16(ab_low, cd_low),
                           _mm512_unpacklo_epi16(ab_high, cd_high), _mm512_unpackhi_epi16(ab_high, cd_high)};
    // Part q, lane l has the channels 16 l + 4 q ...: in order they are lane q of the parts.
    const __m512i r0 = _mm512_shuffle_i32x4(parts[0], parts[1], 0x44),
                  r1 = _mm512_shuffle_i32x4(parts[2], parts[3], 0x44);
    const __m512i r2 = _mm512_shuffle_i32x4(parts[0], parts[1], 0xee),
                  r3 = _mm512_shuffle_i32x4(parts[2], parts[3], 0xee);
    const __m512i order[4]{_mm512_shuffle_i32x4(r0, r1, 0x88), _mm512_shuffle_i32x4(r0, r1, 0xdd),
                           _mm512_shuffle_i32x4(r2, r3, 0x88), _mm512_shuffle_i32x4(r2, r3, 0xdd)};
    const std::int8_t* const weight = row.weight + (tap / 4 * row.channels + channel) * 4;
    for (int q = 0; q < 4; ++q)
      sum[q] = _mm512_dpbusd_epi32(sum[q], order[q],
                                   _mm512_maskz_loadu_epi32(lanes[q], weight + static_cast<std::int64_t>(64) * q));
  }
  for (int q = 0; q < 4; ++q)
    if (lanes[q] != 0) finish(sum[q], scale[q], p * row.pitch + channel + 16 * q, lanes[q]);
}

inline void depthwise_row(const DepthwiseRow& row) {
  const Finish finish(row);
  for (std::int64_t channel = 0; channel < row.channels; channel += 64) {
    const std::int64_t left = row.channels - channel;
    const __mmask64 bytes = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    __m512 scale[4];
    __mmask16 lanes[4];
    for (int q = 0; q < 4; ++q) {
      lanes[q] = first_lanes(left - 16 * q);
      scale[q] = _mm512_maskz_loadu_ps(lanes[q], row.scale + channel + 16 * q);
    }
    for (std::int64_t p = 0; p < row.positions; ++p) depthwise_position(row, finish, channel, p, scale, lanes, bytes);
  }
}

}  // namespace
}  // namespace tern::vectorized::int8
