// The only file here that is compiled for AMX: nothing in it runs where kernels() finds none.

#if TERN_AMX_INT8_BUILT
#include "vectorized/quantized/rows512.hpp"

namespace tern::vectorized::int8 {

extern const Kernels amx_kernels, avx512_kernels;

namespace {

constexpr std::int64_t step_groups = 16, step_numbers = 64, most_rows = 16;

struct alignas(64) Tiles {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {};
};

// The compiler does not know which memory the tile instructions access.
void memory_is_used(const void* at) { asm volatile("" : : "r"(at) : "memory"); }

// Registers 0 to 3 are the sums, in rows; 4 and 5 hold activations, 6 and 7 weights.
void begin(std::int64_t rows) {
  Tiles tiles;
  for (int i = 0; i < 8; ++i) tiles.rows[i] = static_cast<std::uint8_t>(i < 6 ? rows : 16);
  memory_is_used(&tiles);
  _tile_loadconfig(&tiles);
}

void end() { _tile_release(); }

template <bool tall, bool wide>
void add_products(const Block& block) {
  const std::int8_t* b = block.weight;
  for (std::int64_t run = 0; run < block.runs; ++run) {
    const std::uint8_t* a = block.strips[0].a + block.offset[run];
    const std::uint8_t* a2 = tall ? block.strips[1].a + block.offset[run] : nullptr;
    for (std::int64_t group = 0; group < block.groups; group += step_groups, a += step_numbers) {
      _tile_loadd(6, b, 64);
      _tile_loadd(4, a, block.row);
      _tile_dpbusd(0, 4, 6);
      if constexpr (wide) {
        _tile_loadd(7, b + block.panel, 64);
        _tile_dpbusd(1, 4, 7);
      }
      if constexpr (tall) {
        _tile_loadd(5, a2, block.row);
        a2 += step_numbers;
        _tile_dpbusd(2, 5, 6);
        if constexpr (wide) _tile_dpbusd(3, 5, 7);
      }
      b += step_groups * group_bytes;
    }
  }
}

/// Every row of a tile is the bias.
void start(const Block& block) {
  alignas(64) std::int32_t padded[block_columns];
  const std::int32_t* bias = block.bias;
  if (block.columns < block_columns) {
    for (int j = 0; j < 2; ++j) {
      const __mmask16 lanes = first_lanes(block.columns - j * panel_columns);
      _mm512_store_si512(padded + j * panel_columns, _mm512_maskz_loadu_epi32(lanes, bias + j * panel_columns));
    }
    bias = padded;
  }
  memory_is_used(bias);
  _tile_loadd(0, bias, 0);
  _tile_loadd(1, bias + panel_columns, 0);
  _tile_loadd(2, bias, 0);
  _tile_loadd(3, bias + panel_columns, 0);
  memory_is_used(bias);
}

void finish_real(const Block& block, const Strip& strip, const std::int32_t* sums) {
  const Finish finish(block);
  for (std::int64_t column = 0; column < block.columns; column += panel_columns) {
    const __mmask16 lanes = first_lanes(block.columns - column);
    const __m512 scale = _mm512_maskz_loadu_ps(lanes, block.scale + column);
    const auto run = [&](std::int64_t begin, std::int64_t end, std::int64_t y) {
      for (std::int64_t i = begin; i < end; ++i, ++y)
        finish(_mm512_load_si512(sums + i * block_columns + column), scale, y * block.pitch + column, lanes);
    };
    run(strip.first, strip.end, strip.y + strip.first);
    if (strip.again > 0) run(strip.again, strip.again + strip.end, strip.y + strip.end);
  }
}

template <bool adds, Numbers are>
void finish_stored(const Block& block, const Packer& packer, const std::int32_t* sums) {
  for (int i = 0; i < block.strip_count; ++i) {
    const Strip& strip = block.strips[i];
    const std::int32_t* const own = sums + i * most_rows * block_columns;
    packer.run<adds, are>(own, strip.first, strip.end, (strip.y + strip.first) * block.pitch);
    if (strip.again > 0)
      packer.run<adds, are>(own, strip.again, strip.again + strip.end, (strip.y + strip.end) * block.pitch);
  }
}

template <bool adds>
void finish_stored(const Block& block, const std::int32_t* sums) {
  const Packer packer(block);
  switch (packer.numbers()) {
    case Numbers::any:
      return finish_stored<adds, Numbers::any>(block, packer, sums);
    case Numbers::small:
      return finish_stored<adds, Numbers::small>(block, packer, sums);
    case Numbers::plain:
      return finish_stored<adds, Numbers::plain>(block, packer, sums);
  }
}

void finish(const Block& block, const std::int32_t* sums) {
  if (block.real != nullptr) {
    for (int i = 0; i < block.strip_count; ++i)
      finish_real(block, block.strips[i], sums + i * most_rows * block_columns);
    return;
  }
  if (block.other != nullptr)
    finish_stored<true>(block, sums);
  else
    finish_stored<false>(block, sums);
}

void multiply(const Block& block) {
  const bool tall = block.strip_count > 1, wide = block.columns > panel_columns;
  start(block);
  if (tall && wide)
    add_products<true, true>(block);
  else if (tall)
    add_products<true, false>(block);
  else if (wide)
    add_products<false, true>(block);
  else
    add_products<false, false>(block);
  alignas(64) std::int32_t sums[(2 * most_rows + 1) * block_columns];  // rows are read in pairs
  std::int32_t* const second = sums + most_rows * block_columns;
  memory_is_used(sums);
  _tile_stored(0, sums, block_columns * 4);
  if (wide) _tile_stored(1, sums + panel_columns, block_columns * 4);
  if (tall) _tile_stored(2, second, block_columns * 4);
  if (tall && wide) _tile_stored(3, second + panel_columns, block_columns * 4);
  memory_is_used(sums);
  finish(block, sums);
}

}  // namespace

const Kernels amx_kernels{.name = "AMX",
                          .rows = most_rows,
                          .groups_multiple = step_groups,
                          .products = 1000,
                          .multiply = multiply,
                          .begin = begin,
                          .end = end,
                          .depthwise = depthwise512,
                          .depthwise_form = depthwise_bytes,
                          .short_runs = &avx512_kernels,
                          .widen = nullptr,
                          .winograd = nullptr};

}  // namespace tern::vectorized::int8
#endif
