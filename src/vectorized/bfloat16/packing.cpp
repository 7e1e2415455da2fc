// Compiled for AVX-512 with bfloat16: nothing in it runs where avx512_kernels() and amx_kernels() are null.

#if TERN_AVX512_BF16_BUILT
#include "vectorized/bfloat16/packing.hpp"

namespace tern::vectorized::bfloat16 {
namespace {

// Two vectors of float32 to one of bfloat16, the first one's numbers in front. Rows here are registers of 16 pairs.
__m512i rounded(__m512 front, __m512 back) { return (__m512i)_mm512_cvtne2ps_pbh(back, front); }

// Row i has line i: its 16 pairs of neighbouring numbers.
void load_lines(__m512i (&row)[16], const Source& source, std::int64_t line) {
  const __mmask16 front = first(source.numbers), back = first(source.numbers - 16);
  const std::int64_t lines = clamp(source.lines - line, 16);
  const float* from = source.from + line * source.line;
  constexpr std::int64_t ahead = 64;  // numbers: what two steps on will read
  for (std::int64_t i = 0; i < 16; ++i, from += source.line) {
    if (i >= lines) {
      row[i] = _mm512_setzero_si512();
      continue;
    }
    _mm_prefetch(from + ahead, _MM_HINT_T0);
    _mm_prefetch(from + ahead + 16, _MM_HINT_T0);
    row[i] = rounded(_mm512_maskz_loadu_ps(front, from), _mm512_maskz_loadu_ps(back, from + (back == 0 ? 0 : 16)));
  }
}

// Row p has pair p of all 16 lines, where the lines lie side by side.
void load_pairs(__m512i (&row)[16], const Source& source, std::int64_t line) {
  alignas(64) static constexpr std::uint16_t mixed[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                          8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i order = _mm512_load_si512(mixed);
  const __mmask16 lines = first(source.lines - line), none = 0;
  const float* const from = source.from + line;
  for (std::int64_t p = 0; p < 16; ++p) {
    const std::int64_t number = 2 * p;
    const bool has_front = number < source.numbers, has_back = number + 1 < source.numbers;
    const float* const front = has_front ? from + number * source.number : from;
    const float* const back = has_back ? front + source.number : from;
    row[p] = _mm512_permutexvar_epi16(order, rounded(_mm512_maskz_loadu_ps(has_front ? lines : none, front),
                                                     _mm512_maskz_loadu_ps(has_back ? lines : none, back)));
  }
}

// Of 16 x 16 pairs.
void transpose(__m512i (&row)[16]) {
  __m512i by_two[16], by_four[16];
  for (int i = 0; i < 16; i += 2) {
    by_two[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
    by_two[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    by_four[i] = _mm512_unpacklo_epi64(by_two[i], by_two[i + 2]);
    by_four[i + 1] = _mm512_unpackhi_epi64(by_two[i], by_two[i + 2]);
    by_four[i + 2] = _mm512_unpacklo_epi64(by_two[i + 1], by_two[i + 3]);
    by_four[i + 3] = _mm512_unpackhi_epi64(by_two[i + 1], by_two[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {  // column i of each square of four
    const __m512i low = _mm512_shuffle_i32x4(by_four[i], by_four[i + 4], 0x88);
    const __m512i low_odd = _mm512_shuffle_i32x4(by_four[i], by_four[i + 4], 0xdd);
    const __m512i high = _mm512_shuffle_i32x4(by_four[i + 8], by_four[i + 12], 0x88);
    const __m512i high_odd = _mm512_shuffle_i32x4(by_four[i + 8], by_four[i + 12], 0xdd);
    row[i] = _mm512_shuffle_i32x4(low, high, 0x88);
    row[i + 4] = _mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
    row[i + 8] = _mm512_shuffle_i32x4(low, high, 0xdd);
    row[i + 12] = _mm512_shuffle_i32x4(low_odd, high_odd, 0xdd);
  }
}

template <bool LinesAreRows>
void pack(std::uint16_t* out, const Source& source) {
  for (std::int64_t line = 0; line < source.lines; line += tile_lines, out += tile_numbers) {
    __m512i row[16];
    const bool along = source.number == 1;
    if (along)
      load_lines(row, source, line);
    else
      load_pairs(row, source, line);
    if (along != LinesAreRows) transpose(row);
    for (int i = 0; i < 16; ++i) _mm512_store_si512(out + i * depth, row[i]);
  }
}

}  // namespace

void pack_a(std::uint16_t* out, const Source& source) { pack<true>(out, source); }
void pack_b(std::uint16_t* out, const Source& source) { pack<false>(out, source); }

}  // namespace tern::vectorized::bfloat16
#endif
