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
  /// What the second summand adds to 16 results.
  __m512 worth(__m128i numbers) const {
    const __m512i difference = _mm512_sub_epi32(_mm512_cvtepu8_epi32(numbers), other_zero);
    return _mm512_mul_ps(_mm512_cvtepi32_ps(difference), other_scale);
  }
  __m512 plain_worth(__m128i numbers) const {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(numbers)), other_scale);
  }
  __m128i others(std::int64_t at) const { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(other + at)); }
  __m128i others(std::int64_t at, __mmask16 lanes) const { return _mm_maskz_loadu_epi8(lanes, other + at); }
  void write(__m512 t, std::int64_t at, __mmask16 lanes) const {
    if (other != nullptr) t = _mm512_add_ps(t, worth(others(at, lanes)));
    if (real != nullptr)
      _mm512_mask_storeu_ps(real + at, lanes, _mm512_min_ps(_mm512_max_ps(t, low), high));
    else
      _mm512_mask_cvtepi32_storeu_epi8(y + at, lanes, stored(t));
  }
};

/// What rescaling may leave out.
enum class Numbers : std::uint8_t {
  any,
  small,  ///< every number is an int32 before the bounds, which can follow packing: it saturates
  plain   ///< likewise, and the zeros are 0, the bounds those of a byte
};

/// Rescales sums and stores them, two rows of 32 at a time.
class Packer {
 public:
  explicit Packer(const Block& block)
      : finish_(block),
        left_(first_lanes(block.columns)),
        right_(first_lanes(block.columns - panel_columns)),
        left_scale_(_mm512_maskz_loadu_ps(left_, block.scale)),
        right_scale_(_mm512_maskz_loadu_ps(right_, block.scale + panel_columns)),
        zero_(_mm512_set1_epi16(static_cast<std::int16_t>(block.rescale.zero))),
        low_(byte(block.rescale.low, block.rescale.zero)),
        high_(byte(block.rescale.high, block.rescale.zero)),
        pitch_(block.pitch),
        plain_(block.rescale.zero == 0 && block.rescale.low == 0 && block.rescale.high == 255 &&
               (block.other == nullptr || block.rescale.other_zero == 0)) {}

  Numbers numbers() const {
    const __m512 half = _mm512_set1_ps(0.5F), many = _mm512_set1_ps(1 << 20);
    const __mmask16 large = _mm512_cmp_ps_mask(_mm512_abs_ps(left_scale_), half, _CMP_NLT_UQ) |
                            _mm512_cmp_ps_mask(_mm512_abs_ps(right_scale_), half, _CMP_NLT_UQ) |
                            _mm512_cmp_ps_mask(_mm512_abs_ps(finish_.other_scale), many, _CMP_NLT_UQ);
    return large != 0 ? Numbers::any : plain_ ? Numbers::plain : Numbers::small;
  }

  /// Rows [begin, end), whose results begin `at`.
  template <bool adds, Numbers are>
  void run(const std::int32_t* sums, std::int64_t begin, std::int64_t end, std::int64_t at) const {
    const std::int32_t* from = sums + begin * block_columns;
    const std::int32_t* const behind = sums + end * block_columns;
    if (right_ == 0xffff)
      for (; from + block_columns < behind; from += 2 * block_columns, at += 2 * pitch_) {
        const __m512i bytes = rescaled<adds, are, true>(from, at, true);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(finish_.y + at), _mm512_castsi512_si256(bytes));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(finish_.y + at + pitch_), _mm512_extracti64x4_epi64(bytes, 1));
      }
    const auto lanes = static_cast<__mmask32>(left_) | static_cast<__mmask32>(right_) << 16;
    for (; from < behind; from += 2 * block_columns, at += 2 * pitch_) {
      const bool second = from + block_columns < behind;
      const __m512i bytes = rescaled<adds, are, false>(from, at, second);
      _mm256_mask_storeu_epi8(finish_.y + at, lanes, _mm512_castsi512_si256(bytes));
      if (second) _mm256_mask_storeu_epi8(finish_.y + at + pitch_, lanes, _mm512_extracti64x4_epi64(bytes, 1));
    }
  }

 private:
  static __m512i byte(float bound, std::int32_t zero) {
    return _mm512_set1_epi8(static_cast<char>(static_cast<std::int32_t>(bound) + zero));
  }

  /// Two rows of bytes, of which the second may not exist; `whole` ones have 32 columns.
  template <bool adds, Numbers are, bool whole>
  __m512i rescaled(const std::int32_t* sums, std::int64_t at, bool second) const {
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i first = words<adds, are, whole>(sums, at, true);
    __m512i bytes = _mm512_packus_epi16(first, words<adds, are, whole>(sums + block_columns, at + pitch_, second));
    if constexpr (are != Numbers::plain) bytes = _mm512_max_epu8(bytes, low_);
    if constexpr (are == Numbers::small) bytes = _mm512_min_epu8(bytes, high_);
    return _mm512_permutexvar_epi32(order, bytes);
  }

  /// NaN becomes the least number, as below every bound.
  template <bool adds, Numbers are, bool whole>
  __m512i words(const std::int32_t* sums, std::int64_t at, bool exists) const {
    const auto numbers = [&](const std::int32_t* from, __m512 scale, std::int64_t place, __mmask16 lanes) {
      __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(from)), scale);
      if constexpr (adds) {
        const __m128i other = whole ? finish_.others(place) : finish_.others(place, exists ? lanes : __mmask16{0});
        t = _mm512_add_ps(t, are == Numbers::plain ? finish_.plain_worth(other) : finish_.worth(other));
      }
      if constexpr (are == Numbers::any) t = _mm512_min_ps(finish_.high, t);  // the second operand if NaN
      return _mm512_cvtps_epi32(t);
    };
    const __m512i both = _mm512_packs_epi32(numbers(sums, left_scale_, at, left_),
                                            numbers(sums + panel_columns, right_scale_, at + panel_columns, right_));
    return are == Numbers::plain ? both : _mm512_adds_epi16(both, zero_);
  }

  Finish finish_;
  __mmask16 left_, right_;
  __m512 left_scale_, right_scale_;
  __m512i zero_, low_, high_;
  std::int64_t pitch_;
  bool plain_;
};

}  // namespace
}  // namespace tern::vectorized::int8
