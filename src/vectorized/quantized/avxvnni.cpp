// Compiled for AVX-VNNI: nothing in it runs where kernels() finds none.

#if TERN_AVX_VNNI_BUILT
#include "vectorized/quantized/rows256.hpp"

namespace tern::vectorized::int8 {

extern const Kernels avxvnni_kernels;

namespace {

struct Bytes {
  static __m256i add(__m256i sum, __m256i numbers, __m256i weights) {
    return _mm256_dpbusd_avx_epi32(sum, numbers, weights);
  }
};

}  // namespace

const Kernels avxvnni_kernels{.name = "AVX_VNNI",
                              .rows = 2 * tile_rows,
                              .groups_multiple = 1,
                              .products = 100,
                              .multiply = multiply<Bytes>,
                              .begin = nothing,
                              .end = nothing,
                              .depthwise = depthwise256,
                              .depthwise_form = depthwise_words,
                              .short_runs = nullptr,
                              .widen = nullptr,
                              .winograd = nullptr};

}  // namespace tern::vectorized::int8
#endif
