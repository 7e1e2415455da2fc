// Compiled for AVX-512 with VNNI: nothing in it runs where kernels() finds none.

#if TERN_AVX512_VNNI_BUILT
#include "vectorized/quantized/rows512.hpp"

namespace tern::vectorized::int8 {

extern const Kernels avx512_kernels;

namespace {

// Rows whose sums are in registers together.
constexpr std::int64_t most_rows = 8;

__m512i group_of(const std::uint8_t* from) {
  std::int32_t four = 0;
  __builtin_memcpy(&four, from, sizeof(four));
  return _mm512_set1_epi32(four);
}

/// M rows from `a` on, with V panels.
template <int M, int V>
void multiply_rows(const Block& block, const Finish& finish, const std::uint8_t* a, std::int64_t at) {
  __mmask16 lanes[V];
  __m512i sum[M][V];
#pragma GCC unroll 2
  for (int j = 0; j < V; ++j) {
    lanes[j] = first_lanes(block.columns - j * panel_columns);
    const __m512i bias = _mm512_maskz_loadu_epi32(lanes[j], block.bias + j * panel_columns);
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) sum[i][j] = bias;
  }
  const std::int8_t* weight = block.weight;
  for (std::int64_t run = 0; run < block.runs; ++run) {
    const std::uint8_t* line[M];
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) line[i] = a + i * block.row + block.offset[run];
    for (std::int64_t group = 0; group < block.groups; ++group, weight += group_bytes) {
      __m512i numbers[V];
#pragma GCC unroll 2
      for (int j = 0; j < V; ++j) numbers[j] = _mm512_loadu_si512(weight + j * block.panel);
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i) {
        const __m512i of_row = group_of(line[i] + group * group_size);
#pragma GCC unroll 2
        for (int j = 0; j < V; ++j) sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], of_row, numbers[j]);
      }
    }
  }
#pragma GCC unroll 2
  for (int j = 0; j < V; ++j) {
    const __m512 scale = _mm512_maskz_loadu_ps(lanes[j], block.scale + j * panel_columns);
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) finish(sum[i][j], scale, at + i * block.pitch + j * panel_columns, lanes[j]);
  }
}

template <int V>
void multiply_panels(const Block& block) {
  using Rows = void (*)(const Block&, const Finish&, const std::uint8_t*, std::int64_t);
  static constexpr Rows by_rows[most_rows] = {multiply_rows<1, V>, multiply_rows<2, V>, multiply_rows<3, V>,
                                              multiply_rows<4, V>, multiply_rows<5, V>, multiply_rows<6, V>,
                                              multiply_rows<7, V>, multiply_rows<8, V>};
  const Finish finish(block);
  for (int i = 0; i < block.strip_count; ++i) {
    const Strip& strip = block.strips[i];
    for (std::int64_t row = strip.first; row < block.rows;) {
      const std::int64_t left = block.rows - row, parts = (left + most_rows - 1) / most_rows;
      const std::int64_t count = (left + parts - 1) / parts;
      by_rows[count - 1](block, finish, strip.a + row * block.row, (strip.y + row) * block.pitch);
      row += count;
    }
  }
}

void multiply(const Block& block) {
  if (block.columns > panel_columns)
    multiply_panels<2>(block);
  else
    multiply_panels<1>(block);
}

void begin(std::int64_t) {}
void end() {}

}  // namespace

const Kernels avx512_kernels{.name = "AVX512_VNNI",
                             .rows = 16,
                             .groups_multiple = 1,
                             .products = 200,
                             .multiply = multiply,
                             .begin = begin,
                             .end = end,
                             .depthwise = depthwise512,
                             .depthwise_form = depthwise_bytes,
                             .short_runs = nullptr,
                             .widen = nullptr,
                             .winograd = nullptr};

}  // namespace tern::vectorized::int8
#endif
