#pragma once
// Winograd's convolution of 3 x 3 in integers: an output tile of 4 x 4 from 6 x 6 numbers takes 36 products per pair of
// channels in place of 144. All is exact. Transformed numbers and weights fit in 16 bits:
//
//     numbers, each way: B = (4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0), (0, -2, -1, 2, 1, 0),
//                            (0, 2, -1, -2, 1, 0), (0, 4, 0, -5, 0, 1)         at most 17,340 for bytes
//     weights:           G = (1, 0, 0), (1, 1, 1), (1, -1, 1), (1, 2, 4), (1, -2, 4), (0, 0, 1)         at most 6,272
//     sums:              24 y0 = 6 m0 - 4 (m1 + m2) + (m3 + m4)     12 y1 = 2 (m2 - m1) + (m3 - m4)
//                         6 y2 = (m3 + m4) - (m1 + m2)               6 y3 = (m2 - m1) + 2 (m3 - m4) + 6 m5
//
// Sums are int32 and wrap around. Both ways the results are 9 * 2^e times the output, e at most 6: the 9 has an inverse
// modulo 2^32, and the output's 2^e shifts out if the output is within 26 bits, which the weights tell.

#include <cstdint>

#include "vectorized/quantized/kernels.hpp"

namespace tern::vectorized::int8 {

inline constexpr std::int64_t tile_size = 4, patch_size = 6, frequencies = patch_size * patch_size;
inline constexpr std::int64_t transformed_unit = 16;  ///< transformed channels are whole multiples of it

/// Where a tile of the result begins, and how much of it there is.
struct Tile {
  std::int64_t at = 0, rows = 0, columns = 0;
};

/// Some tiles for a panel of 16 columns.
struct TileBlock {
  std::int64_t tiles = 0, channels = 0;  ///< channels after transforming
  const std::int16_t* number = nullptr;  ///< [frequency][tile][channel]
  const std::int16_t* weight = nullptr;  ///< [frequency][pair of channels][16][2]
  std::int32_t* sums = nullptr;          ///< room for [frequency][tile][16]
  const Tile* tile = nullptr;
  std::int64_t line = 0;  ///< elements from one row of the result to the next
  Block out;              ///< its columns, their bias and scale, the result
};

struct WinogradKernels {
  /// The numbers of one tile: frequencies lie `apart`. In: 6 rows of 6 pixels, of which whole units of channels can be
  /// read.
  void (*transform)(std::int16_t* out, std::int64_t apart, const std::uint8_t* in, std::int64_t row, std::int64_t pixel,
                    std::int64_t channels);
  void (*multiply)(const TileBlock&);
};

}  // namespace tern::vectorized::int8
