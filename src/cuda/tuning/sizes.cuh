#pragma once
// The shapes of our own products, for the rules: which of them costs what. The kernels' types (products/tiles.cuh,
// products/sliced_shapes.cuh) are checked against these.

#include "cuda/tuning/costs.cuh"

namespace tern::cuda::tuning {

/// Rows and columns of a tile, k of a stage, blocks that a multiprocessor holds, and bytes of shared memory in the
/// layout that needs most.
struct TileSize {
  int rows, columns, depth, resident;
  std::size_t shared;
};
inline constexpr TileSize tile_sizes[tiles]{{32, 16, 64, 3, 28800}, {32, 32, 64, 3, 36864},  {64, 32, 64, 2, 53248},
                                            {64, 64, 64, 1, 78080}, {128, 64, 32, 1, 78336}, {128, 128, 16, 1, 74240}};

/// Rows and columns of a warp's tile, such tiles beside each other in a block, warps that share the sum of one, and
/// slices of k that a warp has in flight.
struct SliceSize {
  int rows, columns, beside, warps, slices;
  constexpr int all_columns() const { return columns * beside; }
};
inline constexpr SliceSize forward_sizes[forward_slices]{{16, 16, 1, 16, 1}, {16, 16, 1, 16, 4}, {16, 16, 1, 8, 2},
                                                         {16, 32, 1, 8, 2},  {32, 32, 1, 16, 1}, {32, 32, 1, 8, 2},
                                                         {16, 32, 2, 4, 2},  {32, 32, 4, 4, 1}};
/// Of a backward launch: the weight's gradient, and x's.
inline constexpr SliceSize weight_sizes[backward_slices]{{16, 32, 1, 8, 1}, {16, 32, 1, 8, 1},  {16, 32, 2, 4, 1},
                                                         {16, 32, 4, 2, 1}, {16, 32, 1, 16, 1}, {32, 32, 1, 8, 1},
                                                         {32, 32, 2, 4, 1}, {32, 32, 4, 2, 1}};
inline constexpr SliceSize data_sizes[backward_slices]{{16, 16, 1, 8, 2}, {16, 32, 1, 8, 2},  {16, 32, 1, 8, 2},
                                                       {16, 16, 1, 8, 2}, {16, 16, 1, 16, 1}, {16, 32, 1, 8, 2},
                                                       {16, 32, 1, 8, 2}, {16, 32, 1, 8, 2}};

}  // namespace tern::cuda::tuning
