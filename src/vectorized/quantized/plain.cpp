// For processors without special instructions: loops that compilers turn into vectors.

#include <algorithm>
#include <cmath>

#include "vectorized/quantized/kernels.hpp"

namespace tern::vectorized::int8 {

extern const Kernels plain_kernels;

namespace {

float bounded(float t, const Rescale& rescale) {
  t = t > rescale.low ? t : rescale.low;
  return t < rescale.high ? t : rescale.high;
}

/// Rescales `count` sums and writes them at `at`.
template <class Target>
void finish(const std::int32_t* sums, std::int64_t count, const float* scale, const Target& target, std::int64_t at) {
  const Rescale& rescale = target.rescale;
  for (std::int64_t j = 0; j < count; ++j) {
    float t = static_cast<float>(sums[j]) * scale[j];
    if (target.other != nullptr) {
      const std::int32_t other = target.other[at + j] - rescale.other_zero;
      t += static_cast<float>(other) * rescale.other_scale;
    }
    t = bounded(t, rescale);
    if (target.real != nullptr)
      target.real[at + j] = t;
    else
      target.y[at + j] = static_cast<std::uint8_t>(static_cast<std::int32_t>(std::nearbyint(t)) + rescale.zero);
  }
}

void multiply_panel(std::uint32_t* sums, const std::uint8_t* a, const Block& block, const std::int8_t* weight) {
  for (std::int64_t run = 0; run < block.runs; ++run) {
    const std::uint8_t* from = a + block.offset[run];
    for (std::int64_t group = 0; group < block.groups; ++group, from += group_size, weight += group_bytes)
      for (std::int64_t j = 0; j < panel_columns; ++j) {
        std::int32_t sum = 0;
        for (std::int64_t k = 0; k < group_size; ++k) sum += from[k] * weight[j * group_size + k];
        sums[j] += static_cast<std::uint32_t>(sum);
      }
  }
}

void multiply(const Block& block) {
  for (int i = 0; i < block.strip_count; ++i)
    for (std::int64_t row = block.strips[i].first; row < block.rows; ++row)
      for (std::int64_t column = 0; column < block.columns; column += panel_columns) {
        const std::int64_t count = std::min(panel_columns, block.columns - column);
        std::uint32_t sums[panel_columns] = {};
        for (std::int64_t j = 0; j < count; ++j) sums[j] = static_cast<std::uint32_t>(block.bias[column + j]);
        multiply_panel(sums, block.strips[i].a + row * block.row, block,
                       block.weight + column / panel_columns * block.panel);
        std::int32_t whole[panel_columns];
        for (std::int64_t j = 0; j < panel_columns; ++j) whole[j] = static_cast<std::int32_t>(sums[j]);
        finish(whole, count, block.scale + column, block, (block.strips[i].y + row) * block.pitch + column);
      }
}

void depthwise(const DepthwiseRow& row) {
  constexpr std::int64_t depthwise_block = depthwise_bytes.block;
  const std::int64_t groups = row.groups();
  for (std::int64_t begin = 0; begin < row.channels; begin += depthwise_block) {
    const std::int64_t count = std::min(depthwise_block, row.channels - begin);
    const std::int8_t* const weights = row.weight + begin * row.KW * groups * 4;
    std::int64_t place[depthwise_block];
    float scale[depthwise_block];
    for (std::int64_t c = 0; c < count; ++c) {
      place[c] = depthwise_bytes.place(c);
      scale[c] = row.scale[begin + place[c]];
    }
    for (std::int64_t p = 0; p < row.positions; ++p) {
      std::int32_t sums[depthwise_block];
      for (std::int64_t c = 0; c < count; ++c) sums[c] = row.bias[begin + place[c]];
      for (std::int64_t kw = 0; kw < row.KW; ++kw)
        for (std::int64_t kh = 0; kh < row.KH; ++kh) {
          const std::uint8_t* const x = row.x[kh] + p * row.step + kw * row.column + begin;
          const std::int8_t* const weight = weights + (kw * groups + kh / 4) * depthwise_block * 4 + kh % 4;
          for (std::int64_t c = 0; c < count; ++c) sums[c] += x[c] * weight[4 * place[c]];
        }
      finish(sums, count, scale, row, p * row.pitch + begin);
    }
  }
}

void begin(std::int64_t) {}
void end() {}

}  // namespace

const Kernels plain_kernels{.name = "plain",
                            .rows = 16,
                            .groups_multiple = 1,
                            .products = 5,
                            .multiply = multiply,
                            .begin = begin,
                            .end = end,
                            .depthwise = depthwise,
                            .depthwise_form = depthwise_bytes,
                            .short_runs = nullptr,
                            .widen = nullptr,
                            .winograd = nullptr};

}  // namespace tern::vectorized::int8
