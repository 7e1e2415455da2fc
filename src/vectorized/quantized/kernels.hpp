#pragma once
// Products of uint8 activations with int8 weights, whose int32 sums are rescaled at once (kernels/quantized.hpp). The
// kernels work on one thread and one block. Every instruction set gives the same bits.

#include <cstdint>

#include "tern/kernels/quantized.hpp"

namespace tern::vectorized::int8 {

using kernels::Rescale;

/// Weights lie in panels of 16 output channels: [run][group][16][4], a group being 4 numbers of each channel that
/// follow each other along the sum. A run is a part of the sum whose activations are adjacent; zeros fill its last
/// group. Kernels of 16-bit numbers have 2 of them in a group, of as many bytes.
inline constexpr std::int64_t panel_columns = 16, group_size = 4, group_bytes = panel_columns * group_size;
/// A block has at most two panels.
inline constexpr std::int64_t block_columns = 2 * panel_columns;

/// Rows of the first factor: output positions whose activations are at equal distances.
struct Strip {
  const std::uint8_t* a = nullptr;  ///< of row 0
  std::int64_t y = 0;               ///< the output position of row 0
  std::int64_t first = 0;           ///< results of rows before it belong to another strip
  std::int64_t end = 0;             ///< rows from here on have no results,
  std::int64_t again = 0;           ///< but as many as before, for the positions that follow, from this one on; 0: none
};

/// The outputs of one or two strips for at most 32 channels.
struct Block {
  Strip strips[2];
  int strip_count = 1;
  std::int64_t rows = 0;  ///< of each strip, at most those of the kernels
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

/// How a depthwise kernel wants its weights: [block of channels][step][place][4 bytes], zeros behind the last tap and
/// channel. Bytes: a step adds four rows of a column of the kernel, [kw][group of 4 kh]. 16-bit numbers: two of the
/// taps [kh][kw]. Channels of a block lie in the order in which interleaving leaves them.
struct DepthwiseForm {
  std::int64_t block;  ///< channels
  bool words;

  /// Channel 16 l + 4 q + i of a block is number q * block / 4 + 4 l + i.
  constexpr std::int64_t place(std::int64_t channel) const {
    const std::int64_t c = channel % block;
    return channel - c + c / 4 % 4 * (block / 4) + c / 16 * 4 + c % 4;
  }
  constexpr std::int64_t steps(std::int64_t KH, std::int64_t KW) const {
    return words ? (KH * KW + 1) / 2 : KW * ((KH + 3) / 4);
  }
};
inline constexpr DepthwiseForm depthwise_bytes{64, false}, depthwise_words{32, true};

/// One row of depthwise outputs: position p of channel c is the sum over kh and kw of x[kh][p * step + kw * column + c]
/// times a weight. Kernels of 16-bit numbers may read whole blocks of channels.
struct DepthwiseRow {
  const std::uint8_t* const* x = nullptr;     ///< of each kh
  const std::uint8_t* const* taps = nullptr;  ///< of each kh and kw, an even number of them: for 16-bit numbers
  std::int64_t KH = 1, KW = 1;
  std::int64_t step = 0, column = 0, positions = 0, channels = 0;
  const std::int8_t* weight = nullptr;
  const std::int32_t* bias = nullptr;  ///< [block][place]
  const float* scale = nullptr;        ///< likewise
  std::uint8_t* y = nullptr;
  float* real = nullptr;
  const std::uint8_t* other = nullptr;
  std::int64_t pitch = 0;
  Rescale rescale = {};

  std::int64_t groups() const { return (KH + 3) / 4; }
};

struct WinogradKernels;  // in winograd.hpp

struct Kernels {
  const char* name;
  std::int64_t rows;             ///< of a strip, at most
  std::int64_t groups_multiple;  ///< runs have a multiple of so many groups
  double products;               ///< per nanosecond, roughly
  void (*multiply)(const Block&);
  /// Called around the blocks of one thread: `rows` of its strips.
  void (*begin)(std::int64_t rows);
  void (*end)();
  void (*depthwise)(const DepthwiseRow&);
  DepthwiseForm depthwise_form;
  /// Kernels that need no long runs, for images of few channels; null: none.
  const Kernels* short_runs = nullptr;
  /// Kernels of 16-bit numbers: how bytes become these. Null: activations and weights are bytes.
  void (*widen)(std::uint16_t* out, const std::uint8_t* in, std::int64_t count) = nullptr;
  /// For convolutions of 3 x 3, where that is faster; null: never.
  const WinogradKernels* winograd = nullptr;

  /// Bytes of a number, and numbers in a group.
  std::int64_t number() const { return widen == nullptr ? 1 : 2; }
  std::int64_t group_numbers() const { return group_size / number(); }
};

/// The best of this processor, within TERN_SIMD.
const Kernels& kernels();
/// Those of `kernels`, or of another instruction set that this processor has; null: none.
const WinogradKernels* winograd_kernels();
/// All that this processor has, the best first: for tests.
const Kernels* const* all_kernels();
/// Until the end of the process, or another call: null chooses again. For tests.
void force_kernels(const Kernels* chosen);

}  // namespace tern::vectorized::int8
