// The only file that is compiled for AMX: nothing in it runs if amx_kernels() is null.

#if TERN_AMX_BUILT
#include "vectorized/bfloat16/packing.hpp"

namespace tern::vectorized::bfloat16 {

extern const Kernels built_amx_kernels;

namespace {

// The compiler does not know which memory the tile instructions access.
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

constexpr std::int64_t row_bytes = 64, sums_row_bytes = panel_lines * 4;

// Registers 0 to 3 are the sums, in rows; 4 and 5 hold a, 6 and 7 b.
void start(const Block& block) {
  if (block.accumulate) {
    alignas(64) float sums[panel_lines * panel_lines];
    const __mmask16 front = first(block.columns), back = first(block.columns - tile_lines);
    for (std::int64_t i = 0; i < panel_lines; ++i) {
      const bool there = i < block.rows;
      const float* const c = block.c + (there ? i : 0) * block.c_row;
      _mm512_store_ps(sums + i * panel_lines, _mm512_maskz_loadu_ps(there ? front : __mmask16{0}, c));
      _mm512_store_ps(sums + i * panel_lines + tile_lines,
                      _mm512_maskz_loadu_ps(there ? back : __mmask16{0}, c + (back == 0 ? 0 : tile_lines)));
    }
    memory_is_used(sums);
    _tile_loadd(0, sums, sums_row_bytes);
    _tile_loadd(1, sums + tile_lines, sums_row_bytes);
    _tile_loadd(2, sums + tile_lines * panel_lines, sums_row_bytes);
    _tile_loadd(3, sums + tile_lines * panel_lines + tile_lines, sums_row_bytes);
    memory_is_used(sums);
    return;
  }
  if (block.column_bias == nullptr) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  alignas(64) float bias[panel_lines];  // every row of a tile is the same one
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

void add_products(const Block& block) {
  const std::uint16_t *a = block.a, *b = block.b;
  const std::int64_t a_line = block.a_line * 2;  // bytes
  const bool tall = block.rows > tile_lines, wide = block.columns > tile_lines;
  if (tall && wide) {
    for (std::int64_t step = 0; step < block.steps; ++step, a += block.a_step, b += step_numbers) {
      _tile_loadd(6, b, row_bytes);
      _tile_loadd(4, a, a_line);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + tile_numbers, row_bytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, a + tile_lines * block.a_line, a_line);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  } else if (wide) {
    for (std::int64_t step = 0; step < block.steps; ++step, a += block.a_step, b += step_numbers) {
      _tile_loadd(4, a, a_line);
      _tile_loadd(6, b, row_bytes);
      _tile_loadd(7, b + tile_numbers, row_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
  } else {
    for (std::int64_t step = 0; step < block.steps; ++step, a += block.a_step, b += step_numbers) {
      _tile_loadd(6, b, row_bytes);
      _tile_loadd(4, a, a_line);
      _tile_dpbf16ps(0, 4, 6);
      if (!tall) continue;
      _tile_loadd(5, a + tile_lines * block.a_line, a_line);
      _tile_dpbf16ps(2, 5, 6);
    }
  }
}

// For sums in `sums`, 32 per row.
void finish(const Block& block, const float* sums) {
  const __mmask16 front = first(block.columns), back = first(block.columns - tile_lines);
  const __m512 zero = _mm512_setzero_ps(), top = _mm512_set1_ps(block.top);
  for (std::int64_t i = 0; i < block.rows; ++i, sums += panel_lines) {
    float* const c = block.c + i * block.c_row;
    const __m512 low = _mm512_load_ps(sums), high = _mm512_load_ps(sums + tile_lines);
    // Both take the second operand if it is NaN.
    const auto clipped = [&](__m512 value) { return _mm512_min_ps(top, _mm512_max_ps(zero, value)); };
    _mm512_mask_storeu_ps(c, front, block.relu ? clipped(low) : low);
    if (back != 0) _mm512_mask_storeu_ps(c + tile_lines, back, block.relu ? clipped(high) : high);
  }
}

void multiply(const Block& block) {
  start(block);
  add_products(block);
  if (!block.relu && block.rows == panel_lines && block.columns == panel_lines) {
    const std::int64_t row = block.c_row * static_cast<std::int64_t>(sizeof(float));
    _tile_stored(0, block.c, row);
    _tile_stored(1, block.c + tile_lines, row);
    _tile_stored(2, block.c + tile_lines * block.c_row, row);
    _tile_stored(3, block.c + tile_lines * block.c_row + tile_lines, row);
    memory_is_used(block.c);
    return;
  }
  alignas(64) float sums[panel_lines * panel_lines];
  constexpr std::int64_t row = sums_row_bytes;
  memory_is_used(sums);
  _tile_stored(0, sums, row);
  if (block.columns > tile_lines) _tile_stored(1, sums + tile_lines, row);
  if (block.rows > tile_lines) {
    _tile_stored(2, sums + tile_lines * panel_lines, row);
    if (block.columns > tile_lines) _tile_stored(3, sums + tile_lines * panel_lines + tile_lines, row);
  }
  memory_is_used(sums);
  finish(block, sums);
}

}  // namespace

const Kernels built_amx_kernels{.algorithm = "amx",
                                .tile_cycles = 32,
                                .pack_a = pack_a,
                                .pack_b = pack_b,
                                .pack_rounded_a = pack_rounded_a,
                                .pack_rounded_b = pack_rounded_b,
                                .round = round,
                                .copy = copy,
                                .multiply = multiply,
                                .begin = begin,
                                .end = end};

}  // namespace tern::vectorized::bfloat16
#endif
