// Compiled for AVX2: nothing in it runs where kernels() finds none. The instruction that multiplies bytes saturates, so
// bytes become 16-bit numbers, whose products are added exactly.

#if TERN_AVX2_BUILT
#include "vectorized/quantized/rows256.hpp"

namespace tern::vectorized::int8 {

extern const Kernels avx2_kernels;

namespace {

struct Widened {
  static constexpr std::int64_t rows = 2;

  /// Four columns each.
  struct Weights {
    __m256i part[4];
    explicit Weights(const std::int8_t* from) {
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q)
        part[q] = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16 * q)));
    }
  };

  /// Two numbers per column.
  struct Sums {
    __m256i part[4] = {};
    void add(std::int32_t four, const Weights& weights) {
      const __m256i numbers = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) part[q] = _mm256_add_epi32(part[q], _mm256_madd_epi16(numbers, weights.part[q]));
    }
    __m256i columns(int half) const {
      return _mm256_permute4x64_epi64(_mm256_hadd_epi32(part[2 * half], part[2 * half + 1]), 0xd8);
    }
  };
};

}  // namespace

const Kernels avx2_kernels{.name = "AVX2",
                           .groups_multiple = 1,
                           .products = 40,
                           .multiply = multiply<Widened>,
                           .begin = nothing,
                           .end = nothing,
                           .depthwise = nullptr,
                           .short_runs = nullptr};

}  // namespace tern::vectorized::int8
#endif
