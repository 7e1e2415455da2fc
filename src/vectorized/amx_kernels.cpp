// The one file that is compiled for AMX: nothing in it runs where amx_present() is false, and it calls no inline
// function of another header, which a linker could take from here for all.

#if TERN_AMX_BUILT
#include <immintrin.h>

#include "vectorized/amx.hpp"

namespace tern::vectorized {

extern const AmxKernels built_amx_kernels;

namespace {

constexpr std::int64_t tile_lines = 16, tile_numbers = tile_lines * amx_depth;

std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
std::int64_t clamp(std::int64_t value, std::int64_t most) { return value < 0 ? 0 : least(value, most); }

__mmask16 first(std::int64_t count) { return static_cast<__mmask16>((1U << clamp(count, 16)) - 1U); }

// Two vectors of float32 to one of bfloat16, the first one's numbers in front. Rows here are registers of 16 pairs.
__m512i rounded(__m512 front, __m512 back) { return (__m512i)_mm512_cvtne2ps_pbh(back, front); }

// Row i has line i: its 16 pairs of neighbouring numbers.
void load_lines(__m512i (&row)[16], const AmxSource& source, std::int64_t line) {
  const __mmask16 front = first(source.numbers), back = first(source.numbers - 16);
  const std::int64_t lines = clamp(source.lines - line, 16);
  const float* from = source.from + line * source.line;
  for (std::int64_t i = 0; i < 16; ++i, from += source.line)
    row[i] = i < lines
                 ? rounded(_mm512_maskz_loadu_ps(front, from), _mm512_maskz_loadu_ps(back, from + (back == 0 ? 0 : 16)))
                 : _mm512_setzero_si512();
}

// Row p has pair p of all 16 lines, where the lines lie side by side.
void load_pairs(__m512i (&row)[16], const AmxSource& source, std::int64_t line) {
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

// A tile of a has a line in a row, one of b a pair of all lines.
template <bool LinesAreRows>
void pack(std::uint16_t* out, const AmxSource& source) {
  for (std::int64_t line = 0; line < source.lines; line += tile_lines, out += tile_numbers) {
    __m512i row[16];
    const bool along = source.number == 1;
    if (along)
      load_lines(row, source, line);
    else
      load_pairs(row, source, line);
    if (along != LinesAreRows) transpose(row);
    for (int i = 0; i < 16; ++i) _mm512_store_si512(out + i * amx_depth, row[i]);
  }
}

// ---- multiplying -------------------------------------------------------------------------------------------------

// What the tile instructions read and write is memory that the compiler may not think of.
void memory_is_used(const void* at) { asm volatile("" : : "r"(at) : "memory"); }

struct alignas(64) Tiles {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void begin() {
  static constexpr Tiles tiles;
  _tile_loadconfig(&tiles);
}

void end() { _tile_release(); }

constexpr std::int64_t row_bytes = 64;

// Registers 0 to 3 are the sums, in rows; 4 and 5 are of a, 6 and 7 of b.
void start(const AmxBlock& block) {
  if (block.column_bias == nullptr) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  alignas(64) float bias[amx_lines];  // every row of a tile is the same one
  _mm512_store_ps(bias, _mm512_maskz_loadu_ps(first(block.columns), block.column_bias));
  const bool wide = block.columns > tile_lines;
  _mm512_store_ps(bias + tile_lines, _mm512_maskz_loadu_ps(wide ? first(block.columns - tile_lines) : __mmask16{0},
                                                           block.column_bias + (wide ? tile_lines : 0)));
  memory_is_used(bias);
  _tile_loadd(0, bias, 0);
  _tile_loadd(1, bias + tile_lines, 0);
  _tile_loadd(2, bias, 0);
  _tile_loadd(3, bias + tile_lines, 0);
  memory_is_used(bias);
}

void add_products(const AmxBlock& block) {
  const std::uint16_t *a = block.a, *b = block.b;
  const bool tall = block.rows > tile_lines, wide = block.columns > tile_lines;
  if (tall && wide) {
    for (std::int64_t step = 0; step < block.steps; ++step, a += amx_step, b += amx_step) {
      _tile_loadd(6, b, row_bytes);
      _tile_loadd(4, a, row_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + tile_numbers, row_bytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, a + tile_numbers, row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  } else if (wide) {
    for (std::int64_t step = 0; step < block.steps; ++step, a += amx_step, b += amx_step) {
      _tile_loadd(4, a, row_bytes);
      _tile_loadd(6, b, row_bytes);
      _tile_loadd(7, b + tile_numbers, row_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
  } else {
    for (std::int64_t step = 0; step < block.steps; ++step, a += amx_step, b += amx_step) {
      _tile_loadd(6, b, row_bytes);
      _tile_loadd(4, a, row_bytes);
      _tile_dpbf16ps(0, 4, 6);
      if (!tall) continue;
      _tile_loadd(5, a + tile_numbers, row_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
  }
}

// Sums that lie in `sums`, 32 in a row.
void finish(const AmxBlock& block, const float* sums) {
  const __mmask16 front = first(block.columns), back = first(block.columns - tile_lines);
  const __m512 zero = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < block.rows; ++i, sums += amx_lines) {
    float* const c = block.c + i * block.c_row;
    const __m512 low = _mm512_load_ps(sums), high = _mm512_load_ps(sums + tile_lines);
    _mm512_mask_storeu_ps(c, front, block.relu ? _mm512_max_ps(zero, low) : low);  // the second one where it is NaN
    if (back != 0) _mm512_mask_storeu_ps(c + tile_lines, back, block.relu ? _mm512_max_ps(zero, high) : high);
  }
}

void multiply(const AmxBlock& block) {
  start(block);
  add_products(block);
  if (!block.relu && block.rows == amx_lines && block.columns == amx_lines) {
    const std::int64_t row = block.c_row * static_cast<std::int64_t>(sizeof(float));
    _tile_stored(0, block.c, row);
    _tile_stored(1, block.c + tile_lines, row);
    _tile_stored(2, block.c + tile_lines * block.c_row, row);
    _tile_stored(3, block.c + tile_lines * block.c_row + tile_lines, row);
    memory_is_used(block.c);
    return;
  }
  alignas(64) float sums[amx_lines * amx_lines];
  constexpr std::int64_t row = amx_lines * 4;
  memory_is_used(sums);
  _tile_stored(0, sums, row);
  if (block.columns > tile_lines) _tile_stored(1, sums + tile_lines, row);
  if (block.rows > tile_lines) {
    _tile_stored(2, sums + tile_lines * amx_lines, row);
    if (block.columns > tile_lines) _tile_stored(3, sums + tile_lines * amx_lines + tile_lines, row);
  }
  memory_is_used(sums);
  finish(block, sums);
}

}  // namespace

const AmxKernels built_amx_kernels{
    .pack_a = pack<true>, .pack_b = pack<false>, .multiply = multiply, .begin = begin, .end = end};

}  // namespace tern::vectorized
#endif
