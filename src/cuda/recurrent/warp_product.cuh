#pragma once
// The part of a round's product that one warp computes: its rows of the weights stay in registers, the states come from
// shared memory. The partial sums of eight rows belong to one block; `partial` says where, null for rows beyond.

#include "cuda/recurrent/plan.cuh"
#include "cuda/tensor_cores.cuh"

namespace tern::cuda::recurrence {

/// Adds `values` of all lanes; the one at lane * count / 32 remains, in values[0].
template <int count>
__device__ __forceinline__ void sum_lanes(float (&values)[count]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int left = count;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    if (left > 1) {
      left /= 2;
#pragma unroll
      for (int i = 0; i < count / 2; ++i) {
        if (i >= left) break;
        const bool upper = (lane & offset) != 0;
        const float kept = upper ? values[i + left] : values[i], sent = upper ? values[i] : values[i + left];
        values[i] = kept + __shfl_xor_sync(~0u, sent, offset);
      }
    } else {
      values[0] += __shfl_xor_sync(~0u, values[0], offset);
    }
  }
}

/// Multiply-adds of float32: 8 rows, 128 * `vectors` columns over the lanes, four at a time.
template <int vectors>
struct Scalars {
  static constexpr Tile tile = tile_of(vectors, false);
  static constexpr int rows = tile.rows, tiles = rows / 8;
  float weight[rows][vectors * 4];

  /// factor(row, column) is a weight.
  template <class Factor>
  __device__ __forceinline__ void load(const Factor& factor) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int j = 0; j < vectors * 4; ++j) weight[r][j] = factor(r, j / 4 * 128 + lane * 4 + j % 4);
  }

  /// The partial sums of `count` sequences, whose states begin `stride` apart at `states`, to partial + place.
  __device__ __forceinline__ void multiply(const float* states, int stride, int count, float* const (&partial)[tiles],
                                           int place, int pitch) const {
    if (count == 1) return some<1>(states, stride, partial[0] + place, pitch);
    for (int i = 0; i < count; i += 4) some<4>(states + i * stride, stride, partial[0] + place + i * pitch, pitch);
  }

 private:
  template <int count>
  __device__ __forceinline__ void some(const float* states, int stride, float* partial, int pitch) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    float sums[count * rows] = {};
#pragma unroll
    for (int j = 0; j < vectors; ++j) {
      float4 state[count];
#pragma unroll
      for (int n = 0; n < count; ++n)
        state[n] = *reinterpret_cast<const float4*>(states + n * stride + j * 128 + lane * 4);
#pragma unroll
      for (int n = 0; n < count; ++n)
#pragma unroll
        for (int r = 0; r < rows; ++r) {
          float& sum = sums[n * rows + r];
          sum = fmaf(weight[r][j * 4], state[n].x, sum);
          sum = fmaf(weight[r][j * 4 + 1], state[n].y, sum);
          sum = fmaf(weight[r][j * 4 + 2], state[n].z, sum);
          sum = fmaf(weight[r][j * 4 + 3], state[n].w, sum);
        }
    }
    sum_lanes(sums);
    constexpr int lanes = 32 / (count * rows);  // with the same sum
    const int index = lane / lanes;
    if (lane % lanes == 0) partial[index / rows * pitch + index % rows] = sums[0];
  }
};

/// Tensor cores in TF32: 32 rows, 32 * `vectors` columns, for 16 sequences at a time. A lane reads four neighbouring
/// columns of a state, so two multiply-adds take 16 columns in an order of their own.
template <int vectors>
struct TensorTiles {
  static constexpr Tile tile = tile_of(vectors, true);
  static constexpr int rows = tile.rows, tiles = rows / 8, turns = tile.columns / 16;
  std::uint32_t weight[tiles][turns][4];

  template <class Factor>
  __device__ __forceinline__ void load(const Factor& factor) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int m = 0; m < tiles; ++m)
#pragma unroll
      for (int s = 0; s < turns; ++s)
#pragma unroll
        for (int c = 0; c < 4; ++c)
          weight[m][s][c] = __float_as_uint(rounded_tf32(factor(m * 8 + lane / 4, s * 16 + lane % 4 * 4 + c)));
  }

  __device__ __forceinline__ void multiply(const float* states, int stride, int count, float* const (&partial)[tiles],
                                           int place, int pitch) const {
    const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
    for (int i = 0; i < count; i += 16) {
      float sums[tiles][4] = {};
#pragma unroll
      for (int s = 0; s < turns; ++s) {
        const float* const at = states + (i + g) * stride + s * 16 + t * 4;
        const float4 upper = rounded(at), lower = rounded(at + 8 * stride);
        const std::uint32_t first[4] = {__float_as_uint(upper.x), __float_as_uint(lower.x), __float_as_uint(upper.y),
                                        __float_as_uint(lower.y)};
        const std::uint32_t second[4] = {__float_as_uint(upper.z), __float_as_uint(lower.z), __float_as_uint(upper.w),
                                         __float_as_uint(lower.w)};
#pragma unroll
        for (int m = 0; m < tiles; ++m) {
          multiply_add(sums[m], first, {weight[m][s][0], weight[m][s][1]});
          multiply_add(sums[m], second, {weight[m][s][2], weight[m][s][3]});
        }
      }
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
        if (partial[m] == nullptr) continue;
        float* const to = partial[m] + place + (i + g) * pitch + 2 * t;
        *reinterpret_cast<float2*>(to) = {sums[m][0], sums[m][1]};
        *reinterpret_cast<float2*>(to + 8 * pitch) = {sums[m][2], sums[m][3]};
      }
    }
  }

 private:
  static __device__ __forceinline__ float4 rounded(const float* from) {
    const float4 state = *reinterpret_cast<const float4*>(from);
    return {rounded_tf32(state.x), rounded_tf32(state.y), rounded_tf32(state.z), rounded_tf32(state.w)};
  }
};

}  // namespace tern::cuda::recurrence
