#pragma once
// Products of uint8 activations with int8 weights, whose int32 sums are rescaled at once (kernels/quantized.hpp). The
// kernels work on one thread and one block. Every instruction set gives the same bits.

#include <cstdint>

#include "tern/kernels/quantized.hpp"

namespace tern::vectorized::int8 {

using kernels::Rescale;

/// Weights lie in panels of 16 output channels: [run][group][16][4], a group being 4 numbers of each channel that
/// follow each other along the sum. A run is a part of the sum whose activations are adjacent; zeros fill its last
/// group.
inline constexpr std::int64_t panel_columns = 16, group_numbers = 4, group_bytes = panel_columns * group_numbers;
/// A block has at most two panels.
inline constexpr std::int64_t block_columns = 2 * panel_columns;

/// Rows of the first factor: output positions whose activations are at equal distances.
struct Strip {
  const std::uint8_t* a = nullptr;  ///< of row 0
  std::int64_t y = 0;               ///< the output position of row 0
  std::int64_t first = 0;           ///< results of rows before it belong to another strip
};

/// The outputs of one or two strips for at most 32 channels.
struct Block {
  Strip strips[2];
  int strip_count = 1;
  std::int64_t rows = 0;  ///< of each strip, at most 16
  std::int64_t row = 0;   ///< bytes from one row of activations to the next

  std::int64_t runs = 1, groups = 0;     ///< groups per run
  const std::int64_t* offset = nullptr;  ///< of each run, from the beginning of a row; whole groups can be read there
  const std::int8_t* weight = nullptr;
  std::int64_t panel = 0;  ///< bytes from one panel to the next

  std::int64_t columns = 0;
  const std::int32_t* bias = nullptr;
  const float* scale = nullptr;
  std::uint8_t* y = nullptr;            ///< stored results, or
  float* real = nullptr;                ///< float32 ones
  const std::uint8_t* other = nullptr;  ///< or null
  std::int64_t pitch = 0;               ///< elements from one position of the result to the next
  Rescale rescale = {};
};

/// One row of depthwise outputs: position p of channel c is the sum over the taps t of x[t][p * step + c] times the
/// weight of t and c.
struct DepthwiseRow {
  const std::uint8_t* const* x = nullptr;  ///< of each tap
  std::int64_t taps = 0;
  std::int64_t step = 0, positions = 0, channels = 0;
  const std::int8_t* weight = nullptr;  ///< [group of 4 taps][channels][4]
  const std::int32_t* bias = nullptr;
  const float* scale = nullptr;
  std::uint8_t* y = nullptr;
  float* real = nullptr;
  const std::uint8_t* other = nullptr;
  std::int64_t pitch = 0;
  Rescale rescale = {};
};

struct Kernels {
  const char* name;
  std::int64_t groups_multiple;  ///< runs have a multiple of so many groups
  double products;               ///< per nanosecond, roughly
  void (*multiply)(const Block&);
  /// Called around the blocks of one thread: `rows` of its strips.
  void (*begin)(std::int64_t rows);
  void (*end)();
  void (*depthwise)(const DepthwiseRow&);
};

/// The best of this processor, within TERN_SIMD.
const Kernels& kernels();
/// All that this processor has, the best first: for tests.
const Kernels* const* all_kernels();
/// Until the end of the process, or another call: null chooses again. For tests.
void force_kernels(const Kernels* chosen);

}  // namespace tern::vectorized::int8
