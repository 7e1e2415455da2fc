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

/// 16 columns of a result: what their sums begin with and what follows.
class Panel {
 public:
  __m256i bias[2];

  /// Target has columns from `column` on, their bias and scale, and what the result is.
  template <class Target>
  Panel(const Target& target, std::int64_t column)
      : columns_(target.columns - column),
        scale_{_mm256_maskload_ps(target.scale + column, first_lanes(columns_)),
               _mm256_maskload_ps(target.scale + column + 8, first_lanes(columns_ - 8))},
        other_scale_(_mm256_set1_ps(target.rescale.other_scale)),
        low_(_mm256_set1_ps(target.rescale.low)),
        high_(_mm256_set1_ps(target.rescale.high)),
        other_zero_(_mm256_set1_epi32(target.rescale.other_zero)),
        zero_(_mm256_set1_epi16(static_cast<std::int16_t>(target.rescale.zero))) {
    bias[0] = _mm256_maskload_epi32(target.bias + column, first_lanes(columns_));
    bias[1] = _mm256_maskload_epi32(target.bias + column + 8, first_lanes(columns_ - 8));
    if (target.real != nullptr) return;
    least_ = byte(target.rescale.low, target.rescale.zero);
    most_ = byte(target.rescale.high, target.rescale.zero);
    const __m256 sign = _mm256_set1_ps(-0.0F), half = _mm256_set1_ps(0.5F), many = _mm256_set1_ps(1 << 20);
    const __m256 large = _mm256_or_ps(_mm256_or_ps(_mm256_cmp_ps(_mm256_andnot_ps(sign, scale_[0]), half, _CMP_NLT_UQ),
                                                   _mm256_cmp_ps(_mm256_andnot_ps(sign, scale_[1]), half, _CMP_NLT_UQ)),
                                      _mm256_cmp_ps(_mm256_andnot_ps(sign, other_scale_), many, _CMP_NLT_UQ));
    small_ = _mm256_testz_ps(large, large) != 0;
  }

  /// Rescales and writes `rows` rows, the first of which begins `at`.
  template <class Target>
  void finish(const Target& target, const __m256i (*sum)[2], int rows, std::int64_t at) const {
    if (target.real != nullptr)
      write_real(target, sum, rows, at);
    else if (target.other != nullptr)
      small_ ? write<true, true>(target, sum, rows, at) : write<true, false>(target, sum, rows, at);
    else
      small_ ? write<false, true>(target, sum, rows, at) : write<false, false>(target, sum, rows, at);
  }

 private:
  static __m256i byte(float bound, std::int32_t zero) {
    return _mm256_set1_epi8(static_cast<char>(static_cast<std::int32_t>(bound) + zero));
  }
  __m256 bounded(__m256 t) const {
    return _mm256_min_ps(_mm256_max_ps(t, low_), high_);  // the second operand if NaN
  }

  /// 16-bit numbers of the result, in the order 0 to 3, 8 to 11, 4 to 7, 12 to 15. Where every number before the bounds
  /// is an int32, `small`, the bounds follow packing: it saturates.
  template <bool adds, bool small>
  __m256i words(const __m256i* sum, const std::uint8_t* other) const {
    __m256 t[2] = {_mm256_mul_ps(_mm256_cvtepi32_ps(sum[0]), scale_[0]),
                   _mm256_mul_ps(_mm256_cvtepi32_ps(sum[1]), scale_[1])};
    if constexpr (adds) {
      const __m128i bytes = load_bytes(other, columns_);
      t[0] = _mm256_add_ps(t[0], worth(bytes));
      t[1] = _mm256_add_ps(t[1], worth(_mm_srli_si128(bytes, 8)));
    }
    if constexpr (!small) t[0] = bounded(t[0]), t[1] = bounded(t[1]);
    return _mm256_adds_epi16(_mm256_packs_epi32(_mm256_cvtps_epi32(t[0]), _mm256_cvtps_epi32(t[1])), zero_);
  }
  __m256 worth(__m128i bytes) const {
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), other_zero_)), other_scale_);
  }

  template <bool adds, bool small, class Target>
  void write(const Target& target, const __m256i (*sum)[2], int rows, std::int64_t at) const {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int i = 0; i < rows; i += 2, at += 2 * target.pitch) {
      const bool second = i + 1 < rows;
      const auto of_row = [&](int row, std::int64_t place) {
        return words<adds, small>(sum[row], adds ? target.other + place : nullptr);
      };
      const __m256i first = of_row(i, at);
      __m256i bytes = _mm256_packus_epi16(first, second ? of_row(i + 1, at + target.pitch) : first);
      bytes = _mm256_min_epu8(_mm256_max_epu8(bytes, least_), most_);
      bytes = _mm256_permutevar8x32_epi32(bytes, order);
      store_bytes(target.y + at, _mm256_castsi256_si128(bytes), columns_);
      if (second) store_bytes(target.y + at + target.pitch, _mm256_extracti128_si256(bytes, 1), columns_);
    }
  }

  template <class Target>
  void write_real(const Target& target, const __m256i (*sum)[2], int rows, std::int64_t at) const {
    for (int i = 0; i < rows; ++i, at += target.pitch)
      for (int half = 0; half < 2; ++half)
        _mm256_maskstore_ps(target.real + at + 8 * half, first_lanes(columns_ - 8 * half),
                            bounded(_mm256_mul_ps(_mm256_cvtepi32_ps(sum[i][half]), scale_[half])));
  }

  std::int64_t columns_;
  __m256 scale_[2], other_scale_, low_, high_;
  __m256i other_zero_, zero_, least_ = {}, most_ = {};
  bool small_ = false;
};

}  // namespace
}  // namespace tern::vectorized::int8
