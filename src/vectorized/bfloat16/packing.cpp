// Compiled for AVX-512 with bfloat16: nothing in it runs if avx512_kernels() and amx_kernels() are null.

#if TERN_AVX512_BF16_BUILT
#include "vectorized/bfloat16/packing.hpp"

namespace tern::vectorized::bfloat16 {
namespace {

__mmask32 first_32(std::int64_t count) { return static_cast<__mmask32>((std::uint64_t{1} << clamp(count, 32)) - 1); }

// Two vectors of float32 to one of bfloat16, the first one's numbers first. Rows here are registers of 16 pairs.
__m512i rounded(__m512 front, __m512 back) { return (__m512i)_mm512_cvtne2ps_pbh(back, front); }

// Row i gets line i: its 16 pairs of adjacent numbers.
void load_lines(__m512i (&row)[16], const Source& source, std::int64_t line) {
  const __mmask16 front = first(source.numbers), back = first(source.numbers - 16);
  const std::int64_t lines = clamp(source.lines - line, 16);
  const float* from = source.from + line * source.line;
  constexpr std::int64_t ahead = 64;  // numbers: what will be read two steps later
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

// Row p gets pair p of all 16 lines, if the lines are adjacent.
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

// For 16 x 16 pairs.
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

// A pair of 16 lines, from two vectors of 32: the first half of them, or the second.
__m512i pairs(__m512i front, __m512i back, bool second_half) {
  alignas(64) static constexpr std::uint16_t low[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                        8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i order = _mm512_load_si512(low);
  return _mm512_permutex2var_epi16(front, second_half ? _mm512_add_epi16(order, _mm512_set1_epi16(tile_lines)) : order,
                                   back);
}

template <bool LinesAreRows>
void pack_rounded(std::uint16_t* out, const std::uint16_t* from, std::int64_t number, std::int64_t numbers) {
  __m512i low[16], high[16];
  for (std::int64_t p = 0; p < 16; ++p, from += 2 * number) {
    const __m512i front = 2 * p < numbers ? _mm512_loadu_si512(from) : _mm512_setzero_si512();
    const __m512i back = 2 * p + 1 < numbers ? _mm512_loadu_si512(from + number) : _mm512_setzero_si512();
    low[p] = pairs(front, back, false);
    high[p] = pairs(front, back, true);
  }
  if (LinesAreRows) {
    transpose(low);
    transpose(high);
  }
  for (int i = 0; i < 16; ++i) {
    _mm512_store_si512(out + i * depth, low[i]);
    _mm512_store_si512(out + tile_numbers + i * depth, high[i]);
  }
}

}  // namespace

void pack_a(std::uint16_t* out, const Source& source) { pack<true>(out, source); }
void pack_b(std::uint16_t* out, const Source& source) { pack<false>(out, source); }

void pack_rounded_a(std::uint16_t* out, const std::uint16_t* from, std::int64_t number, std::int64_t numbers) {
  pack_rounded<true>(out, from, number, numbers);
}
void pack_rounded_b(std::uint16_t* out, const std::uint16_t* from, std::int64_t number, std::int64_t numbers) {
  pack_rounded<false>(out, from, number, numbers);
}

void round(std::uint16_t* out, const float* in, const float* mask, std::int64_t n) {
  constexpr std::int64_t ahead = 512;  // numbers: images come from far away
  const auto sixteen = [&](std::int64_t i, __mmask16 all) {
    const __m512 values = _mm512_maskz_loadu_ps(all, in + i);
    if (mask == nullptr) return values;
    const __m512 masks = _mm512_maskz_loadu_ps(all, mask + i);
    const __mmask16 gone = _mm512_cmp_ps_mask(masks, _mm512_setzero_ps(), _CMP_LE_OQ);
    return _mm512_maskz_mov_ps(static_cast<__mmask16>(~gone), values);
  };
  std::int64_t i = 0;
  for (; i + depth <= n; i += depth) {
    _mm_prefetch(in + i + ahead, _MM_HINT_T0);
    _mm_prefetch(in + i + ahead + 16, _MM_HINT_T0);
    _mm512_storeu_si512(out + i, rounded(sixteen(i, 0xffff), sixteen(i + 16, 0xffff)));
  }
  if (i == n) return;
  const __mmask16 back = first(n - i - 16);
  _mm512_mask_storeu_epi16(out + i, first_32(n - i),
                           rounded(sixteen(i, first(n - i)), back == 0 ? _mm512_setzero_ps() : sixteen(i + 16, back)));
}

void copy(std::uint16_t* out, const std::uint16_t* in, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + depth <= n; i += depth) _mm512_storeu_si512(out + i, _mm512_loadu_si512(in + i));
  if (i == n) return;
  const __mmask32 rest = first_32(n - i);
  _mm512_mask_storeu_epi16(out + i, rest, _mm512_maskz_loadu_epi16(rest, in + i));
}

}  // namespace tern::vectorized::bfloat16
#endif
