#pragma once
// Shared by forward and backward of attention: tiles of rows in shared memory, and products of a warp's rows with them,
// in float32 or on tensor cores. A thread holds its part of a product in `Sums`: its rows are the same for scores and
// results, so data about a row stay in one thread.

#include <cstdint>
#include <type_traits>

#include "cuda/async_copy.cuh"
#include "cuda/attention/sizes.cuh"
#include "cuda/tensor_cores.cuh"

namespace tern::cuda::scaled_dot_product {

inline constexpr float log2_e = 1.44269504f, ln_2 = 0.693147181f;
/// The distance between rows in shared memory, so that adjacent rows start 4 banks apart.
template <int Width, class Element = float>
inline constexpr int pitch = Width + 16 / static_cast<int>(sizeof(Element));

__device__ __forceinline__ float power_of_2(float exponent) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
}

// ---- tiles in flight ----

/// The largest one up to Count.
template <int Count>
inline constexpr int power_of_2_within = Count < 2 ? Count : 2 * power_of_2_within<Count / 2>;

/// Rows `first` to `first` + Rows of a matrix [count, width], with zeros beyond its end. Rows begin `stride` apart.
template <int Rows, int Width, int Threads, int Count>
__device__ __forceinline__ void copy_rows(float* to, const float* from, int first, int count, int width,
                                          std::int64_t stride) {
  constexpr int per_row = Width / Count, step = power_of_2_within<Threads / per_row>;  // rows of all threads together
  static_assert(step > 0 && Rows % step == 0);
  const int row = static_cast<int>(threadIdx.x / per_row), column = static_cast<int>(threadIdx.x % per_row) * Count;
  if (Threads % per_row != 0 && row >= step) return;
  const int rows_left = column < width ? count - first - row : 0;
  const float* at = from + (first + row) * stride + column;
  to += row * pitch<Width> + column;
#pragma unroll
  for (int i = 0; i < Rows / step; ++i) {
    const bool inside = i * step < rows_left;
    copy_async<Count>(to + i * step * pitch<Width>, inside ? at : from, inside);
    at += step * stride;
  }
}
template <int Rows, int Width, int Threads>
__device__ __forceinline__ void copy_tile(float* to, const float* from, int first, int count, int width,
                                          std::int64_t stride, bool packs) {
  if (packs) {
    copy_rows<Rows, Width, Threads, 4>(to, from, first, count, width, stride);
  } else {
#pragma unroll 1
    for (int i = 0; i < 4; ++i)
      copy_rows<Rows / 4, Width, Threads, 1>(to + i * (Rows / 4) * pitch<Width>, from, first + i * (Rows / 4), count,
                                             width, stride);
  }
}

// ---- products ----

/// Uses fused multiply-adds. A warp's lanes are 4 x 8; its rows are those of a tile of 4 * Rows.
template <int Rows, int Unroll = 2>
struct FusedTile {
  using Element = float;
  static constexpr int rows = Rows, warp_rows = 4 * Rows, lanes_per_row = 8;
  static constexpr bool staged = true;  ///< weights pass through shared memory
  template <int Columns>
  static constexpr int stage_pitch = Columns + 8;

  template <int Columns>
  struct Sums {
    static constexpr int columns = Columns / 8;
    float sum[Rows][columns];
    __device__ __forceinline__ float& at(int i, int j) { return sum[i][j]; }
    __device__ __forceinline__ float& value(int i, int j) { return sum[i][j]; }
  };

  static __device__ __forceinline__ int row(int i) { return static_cast<int>(threadIdx.x) % 32 / 8 + 4 * i; }
  /// For scores, and for results, which have runs of four.
  static __device__ __forceinline__ int column(int j) { return static_cast<int>(threadIdx.x) % 8 + 8 * j; }
  static __device__ __forceinline__ int value_column(int j) {
    return j / 4 * 32 + static_cast<int>(threadIdx.x) % 8 * 4 + j % 4;
  }

  /// scores = a b^T over the width.
  template <int Columns, int Width>
  static __device__ __forceinline__ void scores(Sums<Columns>& out, const float* a, const float* b) {
#pragma unroll
    for (int i = 0; i < Rows; ++i)
#pragma unroll
      for (int j = 0; j < Columns / 8; ++j) out.sum[i][j] = 0;
    const float *const from_a = a + row(0) * pitch<Width>, *const from_b = b + column(0) * pitch<Width>;
#pragma unroll Unroll
    for (int k = 0; k < Width; k += 4) {
      float4 left[Rows], right[Columns / 8];
#pragma unroll
      for (int i = 0; i < Rows; ++i) left[i] = *reinterpret_cast<const float4*>(from_a + 4 * i * pitch<Width> + k);
#pragma unroll
      for (int j = 0; j < Columns / 8; ++j)
        right[j] = *reinterpret_cast<const float4*>(from_b + 8 * j * pitch<Width> + k);
#pragma unroll
      for (int j = 0; j < Columns / 8; ++j)
#pragma unroll
        for (int i = 0; i < Rows; ++i) {
          out.sum[i][j] = fmaf(left[i].x, right[j].x, out.sum[i][j]);
          out.sum[i][j] = fmaf(left[i].y, right[j].y, out.sum[i][j]);
          out.sum[i][j] = fmaf(left[i].z, right[j].z, out.sum[i][j]);
          out.sum[i][j] = fmaf(left[i].w, right[j].w, out.sum[i][j]);
        }
    }
  }

  /// out += weights b, over `Depth` rows of b; the weights are in the stage.
  template <int Depth, int Width>
  static __device__ __forceinline__ void add(Sums<Width>& out, Sums<Depth>&, const float* stage, const float* b) {
    const float *const from_a = stage + row(0) * stage_pitch<Depth>, *const from_b = b + value_column(0);
#pragma unroll Unroll
    for (int k = 0; k < Depth; k += 4) {
      float left[Rows][4];
#pragma unroll
      for (int i = 0; i < Rows; ++i) {
        const float4 four = *reinterpret_cast<const float4*>(from_a + 4 * i * stage_pitch<Depth> + k);
        left[i][0] = four.x, left[i][1] = four.y, left[i][2] = four.z, left[i][3] = four.w;
      }
#pragma unroll
      for (int l = 0; l < 4; ++l)
#pragma unroll
        for (int j = 0; j < Width / 8; j += 4) {
          const float4 right = *reinterpret_cast<const float4*>(from_b + (k + l) * pitch<Width> + j * 8);
#pragma unroll
          for (int i = 0; i < Rows; ++i) {
            out.sum[i][j] = fmaf(left[i][l], right.x, out.sum[i][j]);
            out.sum[i][j + 1] = fmaf(left[i][l], right.y, out.sum[i][j + 1]);
            out.sum[i][j + 2] = fmaf(left[i][l], right.z, out.sum[i][j + 2]);
            out.sum[i][j + 3] = fmaf(left[i][l], right.w, out.sum[i][j + 3]);
          }
        }
    }
  }

  template <int Depth>
  static __device__ __forceinline__ void stage(float* to, Sums<Depth>& weights) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Rows; ++i)
#pragma unroll
      for (int j = 0; j < Depth / 8; ++j) to[row(i) * stage_pitch<Depth> + column(j)] = weights.sum[i][j];
    __syncwarp();
  }
  /// What this thread wrote there.
  template <int Depth>
  static __device__ __forceinline__ float staged_weight(const float* from, int i, int j) {
    return from[row(i) * stage_pitch<Depth> + column(j)];
  }
};

/// Four 8 x 8 blocks of 16 bits, or 8 x 4 of floats: each group of eight lanes supplies the row addresses of one.
template <bool Transposed = false>
__device__ __forceinline__ void load_blocks(std::uint32_t (&to)[4], const void* from) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(from));
  if constexpr (Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

/// A warp's part of sums of tensor cores, of `Tiles` times 16 rows: lane l = 4g + t has the rows g and g + 8, and of
/// each 8 columns 2t and 2t + 1.
template <int Tiles>
struct TensorSums {
  static constexpr int rows = 2 * Tiles, warp_rows = 16 * Tiles, lanes_per_row = 4;
  static constexpr bool staged = false;
  template <int>
  static constexpr int stage_pitch = 0;

  template <int Columns>
  struct Of {
    static constexpr int columns = Columns / 4;
    float sum[Tiles][Columns / 8][4];
    __device__ __forceinline__ float& at(int i, int j) { return sum[i / 2][j / 2][i % 2 * 2 + j % 2]; }
    __device__ __forceinline__ void clear() {
#pragma unroll
      for (int i = 0; i < Tiles; ++i)
#pragma unroll
        for (int j = 0; j < Columns / 8; ++j)
#pragma unroll
          for (int part = 0; part < 4; ++part) sum[i][j][part] = 0;
    }
  };

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int row(int i) { return lane() / 4 + i % 2 * 8 + i / 2 * 16; }
  static __device__ __forceinline__ int column(int j) { return lane() % 4 * 2 + j % 2 + j / 2 * 8; }
};

/// Uses tensor cores, as TF32. The columns of a score are those of multiply_add. The weights are factors of the next
/// product without a move, with its sum over k in another order: the tensor cores' k of t and t + 4 are columns 2t and
/// 2t + 1.
template <int Tiles>
struct TensorTile : TensorSums<Tiles> {
  using Element = float;
  using TensorSums<Tiles>::lane;

  template <int Columns>
  struct Sums : TensorSums<Tiles>::template Of<Columns> {
    __device__ __forceinline__ float& value(int i, int j) {
      return this->sum[i / 2][j / 8 * 4 + j % 4][i % 2 * 2 + j / 4 % 2];
    }
  };

  static __device__ __forceinline__ int value_column(int j) { return j / 8 * 32 + lane() % 4 * 8 + j % 8; }
  static __device__ __forceinline__ std::uint32_t rounded(float value) { return __float_as_uint(rounded_tf32(value)); }

  template <int Columns, int Width>
  static __device__ __forceinline__ void scores(Sums<Columns>& out, const float* a, const float* b) {
    out.clear();
    const int l = lane();
    const float* const from_a = a + (l % 16) * pitch<Width> + l / 16 * 4;
    const float* const from_b = b + (l / 16 * 8 + l % 8) * pitch<Width> + l / 8 % 2 * 4;
#pragma unroll 2
    for (int k = 0; k < Width; k += 8) {
      std::uint32_t left[Tiles][4];
#pragma unroll
      for (int i = 0; i < Tiles; ++i) load_blocks(left[i], from_a + i * 16 * pitch<Width> + k);
#pragma unroll
      for (int j = 0; j < Columns / 8; j += 2) {
        std::uint32_t both[4];
        load_blocks(both, from_b + j * 8 * pitch<Width> + k);
        const std::uint32_t right[2][2] = {{rounded(__uint_as_float(both[0])), rounded(__uint_as_float(both[1]))},
                                           {rounded(__uint_as_float(both[2])), rounded(__uint_as_float(both[3]))}};
#pragma unroll
        for (int i = 0; i < Tiles; ++i) {
          multiply_add(out.sum[i][j], left[i], right[0]);
          multiply_add(out.sum[i][j + 1], left[i], right[1]);
        }
      }
    }
  }

  template <int Depth, int Width>
  static __device__ __forceinline__ void add(Sums<Width>& out, Sums<Depth>& weights, const float*, const float* b) {
    const float* const from_b = b + lane() % 4 * 2 * pitch<Width> + lane() / 4 * 4;
#pragma unroll
    for (int k = 0; k < Depth / 8; ++k) {
      std::uint32_t left[Tiles][4];
#pragma unroll
      for (int i = 0; i < Tiles; ++i) {
        left[i][0] = rounded(weights.sum[i][k][0]);
        left[i][1] = rounded(weights.sum[i][k][2]);
        left[i][2] = rounded(weights.sum[i][k][1]);
        left[i][3] = rounded(weights.sum[i][k][3]);
      }
#pragma unroll
      for (int j = 0; j < Width / 32; ++j) {
        const float* const at = from_b + k * 8 * pitch<Width> + j * 32;
        const float4 first = *reinterpret_cast<const float4*>(at);
        const float4 second = *reinterpret_cast<const float4*>(at + pitch<Width>);
        const std::uint32_t right[4][2] = {{rounded(first.x), rounded(second.x)},
                                           {rounded(first.y), rounded(second.y)},
                                           {rounded(first.z), rounded(second.z)},
                                           {rounded(first.w), rounded(second.w)}};
#pragma unroll
        for (int part = 0; part < 4; ++part)
#pragma unroll
          for (int i = 0; i < Tiles; ++i) multiply_add(out.sum[i][j * 4 + part], left[i], right[part]);
      }
    }
  }

  template <int Depth>
  static __device__ __forceinline__ void stage(float*, Sums<Depth>&) {}
};

/// Over the lanes that share a row.
template <class Tile, class Join>
__device__ __forceinline__ float over_row(float value, Join join) {
#pragma unroll
  for (int distance = 1; distance < Tile::lanes_per_row; distance *= 2)
    value = join(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

/// Rounds a block's own rows to the tile's factor format, unless that is float32.
template <class Tile, int Rows, int Width, int Threads>
__device__ __forceinline__ void prepare_tile(typename Tile::Element* tile) {
  if constexpr (!Tile::staged && std::is_same_v<typename Tile::Element, float>) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < Rows * Width / 4; i += Threads) {
      float4& four = *reinterpret_cast<float4*>(tile + i / (Width / 4) * pitch<Width> + i % (Width / 4) * 4);
      four = {rounded_tf32(four.x), rounded_tf32(four.y), rounded_tf32(four.z), rounded_tf32(four.w)};
    }
  }
}

/// Products of queries and keys become scores. The scale comes behind the sum, so that both passes, whose factors stand
/// on either side, have the same bits: the weights of large scores depend on their last one. `__fmul_rn` keeps the
/// compiler from joining the product with the subtraction that follows, which would round it in one pass only.
template <class Tile, class Scores>
__device__ __forceinline__ void scale_scores(Scores& scores, float scale) {
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
    for (int j = 0; j < scores.columns; ++j) scores.at(i, j) = __fmul_rn(scores.at(i, j), scale);
}

/// Writes a warp's results times `factor(i)` to the rows from `first` on of a matrix [count, width].
template <class Tile, int Width, class Factor>
__device__ __forceinline__ void write_rows(float* to, typename Tile::template Sums<Width>& sums, int first, int count,
                                           int width, std::int64_t stride, bool packs, Factor factor) {
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i) {
    const int row = first + Tile::row(i);
    if (row >= count) continue;
    const float times = factor(i);
#pragma unroll
    for (int j = 0; j < sums.columns; j += 4) {
      const int column = Tile::value_column(j);
      float* const at = to + row * stride + column;
      const float four[4] = {sums.value(i, j) * times, sums.value(i, j + 1) * times, sums.value(i, j + 2) * times,
                             sums.value(i, j + 3) * times};
      if (packs) {
        if (column < width) *reinterpret_cast<float4*>(at) = float4{four[0], four[1], four[2], four[3]};
        continue;
      }
#pragma unroll
      for (int part = 0; part < 4; ++part)
        if (column + part < width) at[part] = four[part];
    }
  }
}

}  // namespace tern::cuda::scaled_dot_product
