#pragma once
// What the files for AVX2 and for AVX-VNNI share; see rows512.hpp for why nothing has external linkage.

#include <immintrin.h>

#include "vectorized/quantized/finish256.hpp"
#include "vectorized/quantized/kernels.hpp"

namespace tern::vectorized::int8 {

void depthwise256(const DepthwiseRow& row);  // in depthwise256.cpp

namespace {

/// 16 columns of a result: what their sums begin with and what follows.
class Panel {
 public:
  __m256i bias[2];

  Panel(const Block& block, std::int64_t column)
      : columns_(block.columns - column),
        rescaler_(block.rescale, block.real == nullptr),
        scale_{_mm256_maskload_ps(block.scale + column, first_lanes(columns_)),
               _mm256_maskload_ps(block.scale + column + 8, first_lanes(columns_ - 8))},
        small_(rescaler_.is_small(scale_, 2)) {
    bias[0] = _mm256_maskload_epi32(block.bias + column, first_lanes(columns_));
    bias[1] = _mm256_maskload_epi32(block.bias + column + 8, first_lanes(columns_ - 8));
  }

  /// Whether `write_plainly` may take the place of `finish`: it keeps sums in registers.
  bool is_plain(const Block& block) const {
    return small_ && columns_ >= panel_columns && block.real == nullptr && block.other == nullptr;
  }
  template <int rows>
  inline __attribute__((always_inline)) void write_plainly(const Block& block, const __m256i (*sum)[2],
                                                           std::int64_t at) const {
#pragma GCC unroll 4
    for (int i = 0; i < rows; i += 2, at += 2 * block.pitch) {
      const int second = i + 1 < rows ? i + 1 : i;
      const __m256i both =
          rescaler_.bytes(words<false, true>(block, sum[i], 0), words<false, true>(block, sum[second], 0));
      const __m256i bytes = _mm256_permutevar8x32_epi32(both, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(block.y + at), _mm256_castsi256_si128(bytes));
      if (second > i)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(block.y + at + block.pitch), _mm256_extracti128_si256(bytes, 1));
    }
  }

  /// Rescales and writes `rows` rows, the first of which begins `at`.
  void finish(const Block& block, const __m256i (*sum)[2], int rows, std::int64_t at) const {
    if (block.real != nullptr)
      write_real(block, sum, rows, at);
    else if (block.other != nullptr)
      small_ ? write<true, true>(block, sum, rows, at) : write<true, false>(block, sum, rows, at);
    else
      small_ ? write<false, true>(block, sum, rows, at) : write<false, false>(block, sum, rows, at);
  }

 private:
  /// 16-bit numbers of the result, in the order 0 to 3, 8 to 11, 4 to 7, 12 to 15.
  template <bool adds, bool small>
  __m256i words(const Block& block, const __m256i* sum, std::int64_t at) const {
    __m256i other[2];
    if constexpr (adds) {
      const __m128i bytes = load_bytes(block.other + at, columns_);
      other[0] = _mm256_cvtepu8_epi32(bytes);
      other[1] = _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8));
    }
    return _mm256_packs_epi32(rescaler_.number<small>(sum[0], scale_[0], adds ? other : nullptr),
                              rescaler_.number<small>(sum[1], scale_[1], adds ? other + 1 : nullptr));
  }

  template <bool adds, bool small>
  void write(const Block& block, const __m256i (*sum)[2], int rows, std::int64_t at) const {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int i = 0; i < rows; i += 2, at += 2 * block.pitch) {
      const bool second = i + 1 < rows;
      const __m256i first = words<adds, small>(block, sum[i], at);
      const __m256i both =
          rescaler_.bytes(first, second ? words<adds, small>(block, sum[i + 1], at + block.pitch) : first);
      const __m256i bytes = _mm256_permutevar8x32_epi32(both, order);
      store_bytes(block.y + at, _mm256_castsi256_si128(bytes), columns_);
      if (second) store_bytes(block.y + at + block.pitch, _mm256_extracti128_si256(bytes, 1), columns_);
    }
  }

  void write_real(const Block& block, const __m256i (*sum)[2], int rows, std::int64_t at) const {
    for (int i = 0; i < rows; ++i, at += block.pitch)
      for (int half = 0; half < 2; ++half)
        _mm256_maskstore_ps(block.real + at + 8 * half, first_lanes(columns_ - 8 * half),
                            rescaler_.real(sum[i][half], scale_[half]));
  }

  std::int64_t columns_;
  Rescaler rescaler_;
  __m256 scale_[2];
  bool small_;
};

// Rows whose sums are in registers together: 12 of 16, beside two vectors of weights, one of activations, one product.
constexpr std::int64_t tile_rows = 6;

/// Groups of 16-bit numbers.
struct Words {
  static __m256i add(__m256i sum, __m256i numbers, __m256i weights) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(numbers, weights));
  }
};

/// Adds a run of M rows, which are `line`. Dot adds the products of a group: of `numbers`, those of one row, with eight
/// columns.
template <class Dot, int M>
inline __attribute__((always_inline)) void add_run(__m256i (*sum)[2], const std::uint8_t* const* line,
                                                   const std::int8_t* weight, std::int64_t groups) {
#pragma GCC unroll 2
  for (std::int64_t group = 0; group < groups; ++group, weight += group_bytes) {
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

/// M rows of one panel.
template <class Dot, int M>
void multiply_rows(const Block& block, const Panel& panel, const std::int8_t* weight, const std::uint8_t* a,
                   std::int64_t at) {
  __m256i sum[M][2];
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) sum[i][0] = panel.bias[0], sum[i][1] = panel.bias[1];
  for (std::int64_t run = 0; run < block.runs; ++run, weight += block.groups * group_bytes) {
    const std::uint8_t* line[M];
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) line[i] = a + i * block.row + block.offset[run];
    add_run<Dot, M>(sum, line, weight, block.groups);
  }
  if (panel.is_plain(block))
    panel.write_plainly<M>(block, sum, at);
  else
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
