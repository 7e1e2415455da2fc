#pragma once
// The multiply-adds of a tile, in float32 or on tensor cores: a thread's part of the sums, how a stage in shared memory
// is added to them, and where they are stored. The threads of a block form `groups` that share the sum over k.

#include "cuda/tensor_cores.cuh"

namespace tern::cuda::products {

/// Which row (column) of the tile is element i of thread t: strided if fragments are read along k, else in runs.
template <int Extent, int PerThread, bool KContiguous>
__device__ __forceinline__ int tile_position(int t, int i) {
  if constexpr (KContiguous) return t + i * (Extent / PerThread);
  if constexpr (PerThread <= 4) return t * PerThread + i;
  return (i / 4) * (Extent * 4 / PerThread) + t * 4 + i % 4;
}

/// One thread's part of four consecutive k.
template <int Extent, int PerThread, int Depth, bool KContiguous>
__device__ __forceinline__ void read_fragment(float (&fragment)[PerThread][4], const float* stage, int t, int k) {
  if constexpr (KContiguous) {
#pragma unroll
    for (int i = 0; i < PerThread; ++i) {
      const float4 four =
          *reinterpret_cast<const float4*>(stage + tile_position<Extent, PerThread, true>(t, i) * (Depth + 4) + k);
      fragment[i][0] = four.x;
      fragment[i][1] = four.y;
      fragment[i][2] = four.z;
      fragment[i][3] = four.w;
    }
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int i = 0; i < PerThread; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(stage + (k + j) * (Extent + 4) +
                                                             tile_position<Extent, PerThread, false>(t, i));
        fragment[i][j] = four.x;
        fragment[i + 1][j] = four.y;
        fragment[i + 2][j] = four.z;
        fragment[i + 3][j] = four.w;
      }
    }
  }
}

/// Uses fused multiply-adds in float32.
template <class Shape, bool KA, bool KB>
struct FusedSums {
  static constexpr int rows = Shape::thread_rows, columns = Shape::thread_columns;
  float sum[rows][columns] = {};
  int group = static_cast<int>(threadIdx.x) / (Shape::across * Shape::down);
  int tx = static_cast<int>(threadIdx.x) % (Shape::across * Shape::down) % Shape::across;
  int ty = static_cast<int>(threadIdx.x) % (Shape::across * Shape::down) / Shape::across;

  /// Adds the first `left` k of a stage, or all.
  __device__ __forceinline__ void add(const float* stage_a, const float* stage_b, int left) {
#pragma unroll Shape::unroll
    for (int step = 0; step < Shape::depth / (4 * Shape::groups); ++step) {
      const int k = (group + step * Shape::groups) * 4;
      if (k >= left) break;
      float a[rows][4], b[columns][4];
      read_fragment<Shape::rows, rows, Shape::depth, KA>(a, stage_a, ty, k);
      read_fragment<Shape::columns, columns, Shape::depth, KB>(b, stage_b, tx, k);
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int r = 0; r < rows; ++r)
#pragma unroll
          for (int c = 0; c < columns; ++c) sum[r][c] = fmaf(a[r][j], b[c][j], sum[r][c]);
    }
  }

  /// Stores the sums of each group, one group after the other, in rows of `stride`.
  template <int stride>
  __device__ __forceinline__ void store(float* to) const {
    float* const mine = to + group * Shape::rows * stride;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      float* const row = mine + tile_position<Shape::rows, rows, KA>(ty, r) * stride;
#pragma unroll
      for (int c = 0; c < columns; c += KB ? 1 : 4) {
        float* const at = row + tile_position<Shape::columns, columns, KB>(tx, c);
        if constexpr (KB)
          *at = sum[r][c];
        else
          *reinterpret_cast<float4*>(at) = float4{sum[r][c], sum[r][c + 1], sum[r][c + 2], sum[r][c + 3]};
      }
    }
  }
};

/// Uses tensor cores: a warp has several 16 x 8 sums in both directions. The stages hold TF32.
template <class Shape, bool KA, bool KB>
struct TensorSums {
  static constexpr int warps = Shape::across * Shape::down / 32;  // of a group
  static constexpr int area = Shape::rows * Shape::columns / warps;
  static constexpr int warp_rows = Shape::rows < 64 ? 32 : area >= 2048 ? 64 : 32, warp_columns = area / warp_rows;
  static constexpr int down = warp_rows / 16, across = warp_columns / 8;
  static_assert(Shape::rows % warp_rows == 0 && Shape::columns % warp_columns == 0 && Shape::groups * warps == 8);
  static_assert(Shape::depth % (8 * Shape::groups) == 0);

  float sum[down][across][4] = {};
  int group = static_cast<int>(threadIdx.x) / 32 / warps;
  int row = static_cast<int>(threadIdx.x) / 32 % warps / (Shape::columns / warp_columns) * warp_rows;
  int column = static_cast<int>(threadIdx.x) / 32 % warps % (Shape::columns / warp_columns) * warp_columns;
  int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;

  template <int extent, bool k_contiguous>
  static __device__ __forceinline__ std::uint32_t element(const float* stage, int at, int k) {
    constexpr int pad = Shape::pad(k_contiguous);
    return __float_as_uint(k_contiguous ? stage[at * (Shape::depth + pad) + k] : stage[k * (extent + pad) + at]);
  }

  __device__ __forceinline__ void add(const float* stage_a, const float* stage_b, int left) {
#pragma unroll
    for (int step = 0; step < Shape::depth / (8 * Shape::groups); ++step) {
      const int k = (group + step * Shape::groups) * 8;
      if (k >= left) break;
      std::uint32_t a[down][4], b[across][2];
#pragma unroll
      for (int i = 0; i < down; ++i)
#pragma unroll
        for (int part = 0; part < 4; ++part)
          a[i][part] = element<Shape::rows, KA>(stage_a, row + i * 16 + g + part % 2 * 8, k + t + part / 2 * 4);
#pragma unroll
      for (int j = 0; j < across; ++j)
#pragma unroll
        for (int part = 0; part < 2; ++part)
          b[j][part] = element<Shape::columns, KB>(stage_b, column + j * 8 + g, k + t + part * 4);
#pragma unroll
      for (int i = 0; i < down; ++i)
#pragma unroll
        for (int j = 0; j < across; ++j) multiply_add(sum[i][j], a[i], b[j]);
    }
  }

  template <int stride>
  __device__ __forceinline__ void store(float* to) const {
    float* const mine = to + (group * Shape::rows + row) * stride + column;
    each_pair(sum, g * 4 + t, [&](int in_rows, int in_columns, float one, float next) {
      *reinterpret_cast<float2*>(mine + in_rows * stride + in_columns) = float2{one, next};
    });
  }
};

}  // namespace tern::cuda::products
