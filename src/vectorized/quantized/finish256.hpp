#pragma once
// Rescaling with AVX2; see rows512.hpp for why nothing has external linkage.

#include <immintrin.h>

#include "tern/kernels/quantized.hpp"

namespace tern::vectorized::int8 {

namespace {

inline __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

/// All bits of the first `count` of eight lanes.
inline __m256i first_lanes(std::int64_t count) {
  const auto some = static_cast<std::int32_t>(count < 0 ? 0 : count > 8 ? 8 : count);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(some), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// The first `count` of 16 bytes.
inline void store_bytes(std::uint8_t* to, __m128i bytes, std::int64_t count) {
  if (count >= 16) return _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
  if ((count & 8) != 0) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
    bytes = _mm_srli_si128(bytes, 8);
    to += 8;
  }
  std::int64_t left = _mm_cvtsi128_si64(bytes);
  for (std::int64_t part = 4; part > 0; part /= 2)
    if ((count & part) != 0) {
      __builtin_memcpy(to, &left, static_cast<std::size_t>(part));
      left >>= 8 * part;
      to += part;
    }
}

inline __m128i load_bytes(const std::uint8_t* from, std::int64_t count) {
  if (count >= 16) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  alignas(16) std::uint8_t bytes[16] = {};
  __builtin_memcpy(bytes, from, static_cast<std::size_t>(count));
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
}

/// What follows on sums, the constants in registers. Where every number before the bounds is an int32, `small`, the
/// bounds follow packing: it saturates.
struct Rescaler {
  __m256 low, high, other_scale;
  __m256i other_zero, zero, least, most;

  explicit Rescaler(const kernels::Rescale& rescale, bool stored)
      : low(_mm256_set1_ps(rescale.low)),
        high(_mm256_set1_ps(rescale.high)),
        other_scale(_mm256_set1_ps(rescale.other_scale)),
        other_zero(_mm256_set1_epi32(rescale.other_zero)),
        zero(_mm256_set1_epi16(static_cast<std::int16_t>(rescale.zero))),
        least(_mm256_set1_epi8(stored ? byte(rescale.low, rescale.zero) : char{0})),
        most(_mm256_set1_epi8(stored ? byte(rescale.high, rescale.zero) : char{0})) {}

  bool is_small(const __m256* scale, int count) const {
    const __m256 sign = _mm256_set1_ps(-0.0F), half = _mm256_set1_ps(0.5F), many = _mm256_set1_ps(1 << 20);
    __m256 large = _mm256_cmp_ps(_mm256_andnot_ps(sign, other_scale), many, _CMP_NLT_UQ);
    for (int i = 0; i < count; ++i)
      large = _mm256_or_ps(large, _mm256_cmp_ps(_mm256_andnot_ps(sign, scale[i]), half, _CMP_NLT_UQ));
    return _mm256_movemask_ps(large) == 0;
  }

  __m256 bounded(__m256 t) const { return _mm256_min_ps(_mm256_max_ps(t, low), high); }  // the second operand if NaN
  __m256 real(__m256i sum, __m256 scale) const { return bounded(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale)); }

  /// `other` is null, or has the numbers of the second summand as int32.
  template <bool small>
  __m256i number(__m256i sum, __m256 scale, const __m256i* other) const {
    __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale);
    if (other != nullptr)
      t = _mm256_add_ps(t, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(*other, other_zero)), other_scale));
    return _mm256_cvtps_epi32(small ? t : bounded(t));
  }
  /// 32 bytes from 16-bit numbers, whose halves stay apart.
  __m256i bytes(__m256i a, __m256i b) const {
    const __m256i packed = _mm256_packus_epi16(_mm256_adds_epi16(a, zero), _mm256_adds_epi16(b, zero));
    return _mm256_min_epu8(_mm256_max_epu8(packed, least), most);
  }

 private:
  static char byte(float bound, std::int32_t zero) {
    return static_cast<char>(static_cast<std::int32_t>(bound) + zero);
  }
};

}  // namespace
}  // namespace tern::vectorized::int8
