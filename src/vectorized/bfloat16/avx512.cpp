// Compiled for AVX-512 with bfloat16: nothing in it runs if avx512_kernels() is null.

#if TERN_AVX512_BF16_BUILT
#include "vectorized/bfloat16/packing.hpp"

namespace tern::vectorized::bfloat16 {

extern const Kernels built_avx512_kernels;

namespace {

// Rows of c whose sums are in registers together: enough to hide an instruction's latency.
constexpr int most_rows = 8;

// A pair of a line of a, for every column.
__m512bh pair_of(const std::uint16_t* from) {
  std::int32_t both = 0;
  __builtin_memcpy(&both, from, sizeof(both));
  return (__m512bh)_mm512_set1_epi32(both);
}

// M rows of c from `row` on, V vectors of columns.
template <int M, int V>
void multiply_rows(const Block& block, std::int64_t row) {
  __mmask16 columns[V];
  __m512 sum[M][V];
  float* const c = block.c + row * block.c_row;
#pragma GCC unroll 2
  for (int j = 0; j < V; ++j) {
    columns[j] = first(block.columns - j * tile_lines);
    const __m512 bias = block.column_bias == nullptr
                            ? _mm512_setzero_ps()
                            : _mm512_maskz_loadu_ps(columns[j], block.column_bias + j * tile_lines);
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i)
      sum[i][j] = block.accumulate ? _mm512_maskz_loadu_ps(columns[j], c + i * block.c_row + j * tile_lines) : bias;
  }
  const std::uint16_t* line[M];
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) line[i] = block.a + (row + i) * block.a_line;
  const std::uint16_t* b = block.b;
  for (std::int64_t step = 0, at = 0; step < block.steps; ++step, at += block.a_step, b += step_numbers)
#pragma GCC unroll 4
    for (std::int64_t pair = 0; pair < depth / 2; ++pair) {
      __m512bh pairs[V];
#pragma GCC unroll 2
      for (int j = 0; j < V; ++j) pairs[j] = (__m512bh)_mm512_load_si512(b + j * tile_numbers + pair * 2 * tile_lines);
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i) {
        const __m512bh of_row = pair_of(line[i] + at + 2 * pair);
#pragma GCC unroll 2
        for (int j = 0; j < V; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], of_row, pairs[j]);
      }
    }
  const __m512 zero = _mm512_setzero_ps(), top = _mm512_set1_ps(block.top);
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < V; ++j)  // both take the second operand if it is NaN
      _mm512_mask_storeu_ps(c + i * block.c_row + j * tile_lines, columns[j],
                            block.relu ? _mm512_min_ps(top, _mm512_max_ps(zero, sum[i][j])) : sum[i][j]);
}

template <int V>
void multiply_columns(const Block& block) {
  using Rows = void (*)(const Block&, std::int64_t);
  static constexpr Rows by_rows[most_rows] = {multiply_rows<1, V>, multiply_rows<2, V>, multiply_rows<3, V>,
                                              multiply_rows<4, V>, multiply_rows<5, V>, multiply_rows<6, V>,
                                              multiply_rows<7, V>, multiply_rows<8, V>};
  for (std::int64_t row = 0; row < block.rows; row += most_rows)
    by_rows[least(block.rows - row, most_rows) - 1](block, row);
}

void multiply(const Block& block) {
  if (block.columns > tile_lines)
    multiply_columns<2>(block);
  else
    multiply_columns<1>(block);
}

void nothing() {}

}  // namespace

const Kernels built_avx512_kernels{.algorithm = "avx512_bf16",
                                   .tile_cycles = 128,
                                   .pack_a = pack_a,
                                   .pack_b = pack_b,
                                   .pack_rounded_a = pack_rounded_a,
                                   .pack_rounded_b = pack_rounded_b,
                                   .round = round,
                                   .copy = copy,
                                   .multiply = multiply,
                                   .begin = nothing,
                                   .end = nothing};

}  // namespace tern::vectorized::bfloat16
#endif
