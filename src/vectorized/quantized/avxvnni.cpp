// Compiled for AVX-VNNI: nothing in it runs where kernels() finds none.

#if TERN_AVX_VNNI_BUILT
#include "vectorized/quantized/rows256.hpp"

namespace tern::vectorized::int8 {

extern const Kernels avxvnni_kernels;

namespace {

struct Whole {
  static constexpr std::int64_t rows = 4;

  struct Weights {
    __m256i half[2];
    explicit Weights(const std::int8_t* from)
        : half{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
               _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32))} {}
  };

  struct Sums {
    __m256i half[2] = {};
    void add(std::int32_t four, const Weights& weights) {
      const __m256i numbers = _mm256_set1_epi32(four);
      half[0] = _mm256_dpbusd_avx_epi32(half[0], numbers, weights.half[0]);
      half[1] = _mm256_dpbusd_avx_epi32(half[1], numbers, weights.half[1]);
    }
    __m256i columns(int which) const { return half[which]; }
  };
};

}  // namespace

const Kernels avxvnni_kernels{.name = "AVX_VNNI",
                              .groups_multiple = 1,
                              .products = 100,
                              .multiply = multiply<Whole>,
                              .begin = nothing,
                              .end = nothing,
                              .depthwise = nullptr,
                              .short_runs = nullptr};

}  // namespace tern::vectorized::int8
#endif
