#pragma once
// What the files for AVX2 and for AVX-VNNI share; see rows512.hpp for why nothing has external linkage.

#include <immintrin.h>

#include "vectorized/quantized/kernels.hpp"

namespace tern::vectorized::int8 {

namespace {

/// Rescales and writes 8 sums, of which `count` exist.
class Finish8 {
 public:
  explicit Finish8(const Block& block)
      : block_(block),
        low_(_mm256_set1_ps(block.rescale.low)),
        high_(_mm256_set1_ps(block.rescale.high)),
        zero_(_mm256_set1_epi32(block.rescale.zero)) {}

  void operator()(__m256i sums, __m256 scale, std::int64_t at, std::int64_t count) const {
    __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scale);
    if (block_.other != nullptr) {
      const __m256i other = _mm256_sub_epi32(_mm256_cvtepu8_epi32(load(block_.other + at, count)),
                                             _mm256_set1_epi32(block_.rescale.other_zero));
      t = _mm256_add_ps(t, _mm256_mul_ps(_mm256_cvtepi32_ps(other), _mm256_set1_ps(block_.rescale.other_scale)));
    }
    t = _mm256_min_ps(_mm256_max_ps(t, low_), high_);  // the second operand if NaN
    if (block_.real != nullptr) {
      alignas(32) float results[8];
      _mm256_store_ps(results, t);
      __builtin_memcpy(block_.real + at, results, static_cast<std::size_t>(count) * sizeof(float));
      return;
    }
    const __m256i stored = _mm256_add_epi32(_mm256_cvtps_epi32(t), zero_);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(stored), _mm256_extracti128_si256(stored, 1));
    const std::int64_t bytes = _mm_cvtsi128_si64(_mm_packus_epi16(words, words));
    __builtin_memcpy(block_.y + at, &bytes, static_cast<std::size_t>(count));
  }

 private:
  static __m128i load(const std::uint8_t* from, std::int64_t count) {
    std::int64_t bytes = 0;
    __builtin_memcpy(&bytes, from, static_cast<std::size_t>(count));
    return _mm_cvtsi64_si128(bytes);
  }

  const Block& block_;
  __m256 low_, high_;
  __m256i zero_;
};

inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// M rows of one panel. Sums are Dot's, which tells what a group adds to them and what 8 columns of them are.
template <class Dot, int M>
void multiply_rows(const Block& block, const Finish8& finish, const std::int8_t* weight, std::int64_t column,
                   const std::uint8_t* a, std::int64_t at) {
  typename Dot::Sums sums[M] = {};
  for (std::int64_t run = 0; run < block.runs; ++run) {
    const std::uint8_t* const from = a + block.offset[run];
    for (std::int64_t group = 0; group < block.groups; ++group, weight += group_bytes) {
      const typename Dot::Weights numbers(weight);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        std::int32_t four = 0;
        __builtin_memcpy(&four, from + i * block.row + group * group_numbers, sizeof(four));
        sums[i].add(four, numbers);
      }
    }
  }
  for (int half = 0; half < 2; ++half) {
    const std::int64_t first = column + 8 * half, count = least(8, block.columns - first);
    if (count <= 0) return;
    alignas(32) std::int32_t bias[8] = {};
    alignas(32) float scale[8] = {};
    __builtin_memcpy(bias, block.bias + first, static_cast<std::size_t>(count) * sizeof(bias[0]));
    __builtin_memcpy(scale, block.scale + first, static_cast<std::size_t>(count) * sizeof(scale[0]));
    for (int i = 0; i < M; ++i)
      finish(_mm256_add_epi32(sums[i].columns(half), _mm256_load_si256(reinterpret_cast<const __m256i*>(bias))),
             _mm256_load_ps(scale), at + i * block.pitch + first, count);
  }
}

template <class Dot>
void multiply(const Block& block) {
  using Rows =
      void (*)(const Block&, const Finish8&, const std::int8_t*, std::int64_t, const std::uint8_t*, std::int64_t);
  static constexpr Rows by_rows[4] = {multiply_rows<Dot, 1>, multiply_rows<Dot, 2>, multiply_rows<Dot, 3>,
                                      multiply_rows<Dot, 4>};
  const Finish8 finish(block);
  for (std::int64_t column = 0; column < block.columns; column += panel_columns)
    for (int i = 0; i < block.strip_count; ++i) {
      const Strip& strip = block.strips[i];
      for (std::int64_t row = strip.first; row < block.rows;) {
        const std::int64_t count = least(Dot::rows, block.rows - row);
        by_rows[count - 1](block, finish, block.weight + column / panel_columns * block.panel, column,
                           strip.a + row * block.row, (strip.y + row) * block.pitch);
        row += count;
      }
    }
}

inline void nothing(std::int64_t) {}
inline void nothing() {}

}  // namespace
}  // namespace tern::vectorized::int8
