// Compiled for AVX2: nothing in it runs where kernels() finds none. The instruction that multiplies bytes saturates, so
// numbers have 16 bits here, whose products are added exactly. By a count of instructions, exact
// products of bytes, with changed signs and one more step, would be no faster.

#if TERN_AVX2_BUILT
#include "vectorized/quantized/rows256.hpp"

namespace tern::vectorized::int8 {

extern const Kernels avx2_kernels;
extern const WinogradKernels winograd256;  // in winograd256.cpp

namespace {

void widen(std::uint16_t* out, const std::uint8_t* in, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  for (; i < count; ++i) out[i] = in[i];
}

}  // namespace

const Kernels avx2_kernels{.name = "AVX2",
                           .rows = 2 * tile_rows,
                           .groups_multiple = 1,
                           .products = 80,
                           .multiply = multiply<Words>,
                           .begin = nothing,
                           .end = nothing,
                           .depthwise = depthwise256,
                           .depthwise_form = depthwise_words,
                           .short_runs = nullptr,
                           .widen = widen,
                           .winograd = &winograd256};

}  // namespace tern::vectorized::int8
#endif
