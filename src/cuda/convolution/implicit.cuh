#pragma once
// Our own implicit matrix products: channels-last convolutions of float32 tensors whose patches are never written out.
// Tiles pass through a ring of stages in shared memory, which cp.async fills ahead, 16 bytes of a position's channels
// at a time. Strict problems run on fused multiply-adds, those that may be read as TF32 on tensor cores.

#include "cuda/async_copy.cuh"
#include "cuda/convolution/packed.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/tensor_cores.cuh"

namespace tern::cuda::convolution {

/// Whether an engine's problem (forward or grad_weight) can run here.
bool implicit_fits(const Problem& problem);
/// The problem in the kernels' types: channels of one group, everything in 32 bits.
struct Sizes {
  int positions, O, C, length, H, W;  // length: KH KW C, the elements of an output channel's weight
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int x_pitch, y_pitch;  // elements from one position to the next
  Divisor<std::uint32_t> OH, OW, KW, channels;

  /// Replaces a position by its image; returns where its window begins.
  __device__ __forceinline__ int2 window_of(std::uint32_t& position) const {
    const int w = static_cast<int>(OW.split(position)) * stride_w - pad_w;
    const int h = static_cast<int>(OH.split(position)) * stride_h - pad_h;
    return {w, h};
  }
};

inline Sizes sizes_of(const Problem& problem) {
  const auto whole = [](std::int64_t value) { return static_cast<int>(value); };
  const std::int64_t C = problem.C / problem.groups;
  using Divide = Divisor<std::uint32_t>;
  Sizes s{};
  s.positions = whole(problem.positions()), s.O = whole(problem.O / problem.groups), s.C = whole(C);
  s.length = whole(problem.KH * problem.KW * C), s.H = whole(problem.H), s.W = whole(problem.W);
  s.stride_h = whole(problem.stride_h), s.stride_w = whole(problem.stride_w);
  s.pad_h = whole(problem.pad_h), s.pad_w = whole(problem.pad_w);
  s.dilation_h = whole(problem.dilation_h), s.dilation_w = whole(problem.dilation_w);
  s.x_pitch = whole(problem.x_channels), s.y_pitch = whole(problem.y_channels);
  s.OH = Divide(problem.OH), s.OW = Divide(problem.OW), s.KW = Divide(problem.KW), s.channels = Divide(C);
  return s;
}

/// A block's part of a product, its warps, the k of a stage, and how many blocks share a multiprocessor.
template <int tile_rows, int tile_columns, int warps_by_row, int warps_by_column, int stage_depth, int stage_count,
          int blocks_resident>
struct ImplicitTile {
  static constexpr int rows = tile_rows, columns = tile_columns, warps_m = warps_by_row, warps_n = warps_by_column,
                       depth = stage_depth, stages = stage_count, resident = blocks_resident;
  static constexpr int warps = warps_m * warps_n, threads = 32 * warps;
  static constexpr int warp_rows = rows / warps_m, warp_columns = columns / warps_n;
};

/// Enough for the largest tile in use.
constexpr std::size_t most_shared_bytes = 96 * 1024;

}  // namespace tern::cuda::convolution
