#pragma once
// What the files for AVX2 and for AVX-VNNI share; see rows512.hpp for why nothing has external linkage.

#include <immintrin.h>

#include "vectorized/quantized/finish256.hpp"
#include "vectorized/quantized/kernels.hpp"

namespace tern::vectorized::int8 {

namespace {

// Rows whose sums are in registers together: 12 of 16, beside two vectors of weights, one of activations, one product.
constexpr std::int64_t tile_rows = 6;

/// M rows of one panel. Dot adds the products of a group: of `numbers`, those of one row, with eight columns.
template <class Dot, int M>
void multiply_rows(const Block& block, const Panel& panel, const std::int8_t* weight, const std::uint8_t* a,
                   std::int64_t at) {
  __m256i sum[M][2];
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) sum[i][0] = panel.bias[0], sum[i][1] = panel.bias[1];
  for (std::int64_t run = 0; run < block.runs; ++run) {
    const std::uint8_t* line[M];
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) line[i] = a + i * block.row + block.offset[run];
    for (std::int64_t group = 0; group < block.groups; ++group, weight += group_bytes) {
      const __m256i left = load(weight), right = load(weight + 32);
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i) {
        std::int32_t numbers = 0;
        __builtin_memcpy(&numbers, line[i] + group * group_size, sizeof(numbers));
        const __m256i of_row = _mm256_set1_epi32(numbers);
        sum[i][0] = Dot::add(sum[i][0], of_row, left);
        sum[i][1] = Dot::add(sum[i][1], of_row, right);
      }
    }
  }
  panel.finish(block, sum, M, at);
}

template <class Dot>
void multiply(const Block& block) {
  using Rows = void (*)(const Block&, const Panel&, const std::int8_t*, const std::uint8_t*, std::int64_t);
  static constexpr Rows by_rows[tile_rows] = {multiply_rows<Dot, 1>, multiply_rows<Dot, 2>, multiply_rows<Dot, 3>,
                                              multiply_rows<Dot, 4>, multiply_rows<Dot, 5>, multiply_rows<Dot, 6>};
  for (std::int64_t column = 0; column < block.columns; column += panel_columns) {
    const Panel panel(block, column);
    const std::int8_t* const weight = block.weight + column / panel_columns * block.panel;
    for (int i = 0; i < block.strip_count; ++i) {
      const Strip& strip = block.strips[i];
      for (std::int64_t row = strip.first; row < block.rows;) {
        const std::int64_t left = block.rows - row, parts = (left + tile_rows - 1) / tile_rows;
        const std::int64_t count = (left + parts - 1) / parts;
        by_rows[count - 1](block, panel, weight, strip.a + row * block.row, (strip.y + row) * block.pitch + column);
        row += count;
      }
    }
  }
}

inline void nothing(std::int64_t) {}
inline void nothing() {}

}  // namespace
}  // namespace tern::vectorized::int8
