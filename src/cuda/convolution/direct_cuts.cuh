#pragma once
// How the direct convolutions on tensor cores are cut: arithmetic on sizes and a card's figures. Host code without a
// runtime, which benchmarks and tests compile without nvcc.

#include "cuda/tuning/search.cuh"
#include "tern/kernels/conv.hpp"

namespace tern::cuda::convolution {

using kernels::Conv2d;

constexpr int tensor_warps = 8, tensor_threads = 32 * tensor_warps;  // of most blocks
constexpr int tensor_rows = 32;   // of a warp's tile: two consecutive multiplications
constexpr int tensor_depth = 16;  // k of a slice

constexpr int padded(std::int64_t count, int of) { return static_cast<int>((count + of - 1) / of) * of; }

/// The distance of rows of `length` floats in shared memory, whole slices of them: adjacent packs of four are in
/// different banks.
constexpr int pitch_of_rows(int length) { return (padded(length, tensor_depth) + 15) / 32 * 32 + 16; }
constexpr std::size_t split_bytes(int columns, int tiles, int splits) {
  return static_cast<std::size_t>(splits * columns * (tiles * tensor_rows + 4)) * sizeof(float);
}
/// Shared memory that a block may use.
inline std::size_t shared_limit(const tuning::Figures& on) {
  return on.shared_per_block < 200 * 1024 ? on.shared_per_block : 200 * 1024;
}

/// Columns of a block; those of a warp's tile are `across` times 8.
inline constexpr int column_choices[]{8, 24, 32, 56, 64};

// ---- forward ----

/// Rows are output positions, gathered from x; columns output channels; k is (channel, tap) in the weight's order. If y
/// is pooled, a lane's four rows are the outputs of a window.
struct ForwardCut {
  int columns = 0;            // of a block; 0: nothing fits
  int tiles = 1, splits = 1;  // of 32 rows in a block; of the sum over k
  int image = 0, pitch = 0;   // floats of an image, and of an output channel's weights, in shared memory
  int planes = 0;             // floats of all images there
  std::size_t shared = 0;
};
/// Blocks whose registers fit a multiprocessor.
constexpr int forward_resident(int across, bool doubles) {
  if (across == 1) return doubles ? 3 : 4;
  if (across == 3) return doubles ? 2 : 3;
  return across == 4 && !doubles ? 2 : 1;
}
/// `rounded`: with factors rounded to TF32, else with doubles.
ForwardCut find_forward_cut(const tuning::Figures& on, const tuning::Costs& costs, const Conv2d& sizes, bool rounded);

// ---- the gradient of the weight ----

/// Rows are (channel, tap), gathered from x; columns output channels; k is output positions. A block sums a slice of
/// the images for some of the channels.
struct GradWeightCut {
  int columns = 0;              // of a block; 0: nothing fits
  int channels = 1, tiles = 1;  // of x in a block, and the tiles of their rows
  int warps = 1, splits = 1;    // of a block; of the sum over k, among them
  int slices = 1, images_per_slice = 1;
  int together = 1;           // images in shared memory at a time
  int planes = 0, pitch = 0;  // floats of an image's planes, and of a row of y's gradient
  std::size_t shared = 0;
};
GradWeightCut find_grad_weight_cut(const tuning::Figures& on, const tuning::Costs& costs, const Conv2d& sizes,
                                   bool rounded);

// ---- the gradient of x ----

constexpr int patch = 8;  // rows and columns of a piece of y's gradient
constexpr int patch_area = patch * patch;
constexpr int most_units = 16;                                              // warps of a block
constexpr int products_of(int window) { return (patch + window) / 2 * 2; }  // rows that a patch's products fall on
constexpr int product_stride(int window) {
  return products_of(window) * patch + 4;
}  // of a column's, without bank conflicts

/// A warp takes a patch of 8 x 8 of y's gradient, k output channels, and 8 of the columns (channel, kw). The rows of
/// the patch are in separate registers, so a step down the window is another register: the terms of all kh for a row of
/// x are summed there, and only the kw are added through shared memory, in order.
struct GradXCut {
  int channels = 0;  // of x, in a block; 0: nothing fits
  int images = 1;    // in a block
  int w_pitch = 0;   // floats of an output channel's weights in shared memory
  std::size_t shared = 0;
};
/// Patches of an image, and floats in shared memory from one output channel to the next.
struct PatchCounts {
  int down, across, count, stride;
  explicit constexpr PatchCounts(const Conv2d& sizes)
      : down(padded(sizes.OH, patch) / patch),
        across(padded(sizes.OW, patch) / patch),
        count(down * across),
        stride(count * patch_area + 8) {}
};
GradXCut find_grad_x_cut(const tuning::Figures& on, const tuning::Costs& costs, const Conv2d& sizes, bool rounded);

}  // namespace tern::cuda::convolution
