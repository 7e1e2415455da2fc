#pragma once
// The tiles of attention with 16-bit elements: products on tensor cores, with float32 scores and sums. Weights and the
// gradients of scores are rounded to the elements' type as factors of the next product.

#include "cuda/attention/tiles.cuh"
#include "cuda/elements.cuh"

namespace tern::cuda::scaled_dot_product {

/// As for floats. Rows that are no multiples of 16 bytes are copied synchronously.
template <int Rows, int Width, int Threads, class T>
requires is_half<T> __device__ __forceinline__ void copy_tile(T* to, const T* from, int first, int count, int width,
                                                              std::int64_t stride, bool packs) {
  constexpr int per_row = Width / 8, packets = Rows * per_row;
  const auto place = [&](int i, const auto& copy) {
    const int row = i / per_row, column = i % per_row * 8;
    const bool inside = first + row < count && column < width;
    copy(to + row * pitch<Width, T> + column, from + (inside ? (first + row) * stride + column : 0), inside,
         width - column);
  };
  constexpr int step = Threads / per_row;                     // rows of all threads together
  if (packs && Threads % per_row == 0 && Rows % step == 0) {  // by one address that moves
    const int row = static_cast<int>(threadIdx.x) / per_row, column = static_cast<int>(threadIdx.x) % per_row * 8;
    const int rows_left = column < width ? count - first - row : 0;
    const T* at = from + (first + row) * stride + column;
    T* const place_of_thread = to + row * pitch<Width, T> + column;
#pragma unroll
    for (int i = 0; i < Rows / step; ++i) {
      const bool inside = i * step < rows_left;
      copy_async<4>(reinterpret_cast<float*>(place_of_thread + i * step * pitch<Width, T>),
                    reinterpret_cast<const float*>(inside ? at : from), inside);
      at += step * stride;
    }
  } else if (packs) {
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < packets; i += Threads)
      place(i, [](T* at, const T* source, bool inside, int) {
        copy_async<4>(reinterpret_cast<float*>(at), reinterpret_cast<const float*>(source), inside);
      });
  } else {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < packets; i += Threads)
      place(i, [](T* at, const T* source, bool inside, int left) {
#pragma unroll
        for (int part = 0; part < 8; ++part) at[part] = inside && part < left ? source[part] : T{};
      });
  }
}

/// sum += a b over a warp, 16 x 8 from 16 x 16 and 16 x 8.
template <class T>
__device__ __forceinline__ void multiply_add_halves(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                    std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// Two elements in a word, the first in its lower half.
template <class T>
__device__ __forceinline__ std::uint32_t rounded_pair(float first, float second) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const std::uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const std::uint32_t&>(pair);
  }
}

/// Sums of one product are factors of the next without a move.
template <class T, int Tiles>
struct HalfTile : TensorSums<Tiles> {
  using Element = T;
  using TensorSums<Tiles>::lane;

  template <int Columns>
  struct Sums : TensorSums<Tiles>::template Of<Columns> {
    __device__ __forceinline__ float& value(int i, int j) { return this->at(i, j); }
  };

  static __device__ __forceinline__ int value_column(int j) { return TensorSums<Tiles>::column(j); }

  /// out = a b^T over the width.
  template <int Columns, int Width>
  static __device__ __forceinline__ void scores(Sums<Columns>& out, const T* a, const T* b) {
    constexpr int distance = pitch<Width, T>;
    out.clear();
    const int l = lane();
    const T* const from_a = a + (l % 16) * distance + l / 16 * 8;
    const T* const from_b = b + (l / 16 * 8 + l % 8) * distance + l / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < Width; k += 16) {
      std::uint32_t left[Tiles][4];
#pragma unroll
      for (int i = 0; i < Tiles; ++i) load_blocks(left[i], from_a + i * 16 * distance + k);
#pragma unroll
      for (int j = 0; j < Columns / 8; j += 2) {
        std::uint32_t right[4];
        load_blocks(right, from_b + j * 8 * distance + k);
#pragma unroll
        for (int i = 0; i < Tiles; ++i) {
          multiply_add_halves<T>(out.sum[i][j], left[i], right[0], right[1]);
          multiply_add_halves<T>(out.sum[i][j + 1], left[i], right[2], right[3]);
        }
      }
    }
  }

  /// out += weights b, over `Depth` rows of b.
  template <int Depth, int Width>
  static __device__ __forceinline__ void add(Sums<Width>& out, Sums<Depth>& weights, const float*, const T* b) {
    constexpr int distance = pitch<Width, T>;
    const T* const from_b = b + lane() % 16 * distance + lane() / 16 * 8;
#pragma unroll
    for (int k = 0; k < Depth / 16; ++k) {
      std::uint32_t left[Tiles][4];
#pragma unroll
      for (int i = 0; i < Tiles; ++i)
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const float(&from)[4] = weights.sum[i][2 * k + part / 2];
          left[i][part] = rounded_pair<T>(from[part % 2 * 2], from[part % 2 * 2 + 1]);
        }
#pragma unroll
      for (int j = 0; j < Width / 8; j += 2) {
        std::uint32_t right[4];
        load_blocks<true>(right, from_b + k * 16 * distance + j * 8);
#pragma unroll
        for (int i = 0; i < Tiles; ++i) {
          multiply_add_halves<T>(out.sum[i][j], left[i], right[0], right[1]);
          multiply_add_halves<T>(out.sum[i][j + 1], left[i], right[2], right[3]);
        }
      }
    }
  }

  template <int Depth>
  static __device__ __forceinline__ void stage(float*, Sums<Depth>&) {}
};

/// Four lanes share a row: lane t has word t of each of four packets, and receives the four words of packet t.
__device__ __forceinline__ void exchange_words(std::uint32_t (&words)[4]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int p = 0; p < 4; p += 2) {
    const std::uint32_t other = __shfl_xor_sync(~0u, t % 2 == 0 ? words[p + 1] : words[p], 1);
    (t % 2 == 0 ? words[p + 1] : words[p]) = other;
  }
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const std::uint32_t other = __shfl_xor_sync(~0u, t < 2 ? words[p + 2] : words[p], 2);
    (t < 2 ? words[p + 2] : words[p]) = other;
  }
}

/// As for floats; all lanes of the warp call it.
template <class Tile, int Width, class T, class Factor>
requires is_half<T> __device__ __forceinline__ void write_rows(T* to, typename Tile::template Sums<Width>& sums,
                                                               int first, int count, int width, std::int64_t stride,
                                                               bool packs, Factor factor) {
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i) {
    const int row = first + Tile::row(i);
    const float times = factor(i);
#pragma unroll
    for (int j = 0; j < sums.columns; j += 8) {
      std::uint32_t words[4];
#pragma unroll
      for (int p = 0; p < 4; ++p)
        words[p] = rounded_pair<T>(sums.at(i, j + 2 * p) * times, sums.at(i, j + 2 * p + 1) * times);
      exchange_words(words);
      const int column = 4 * j + Tile::lane() % 4 * 8;
      if (row >= count || column >= width) continue;
      T* const at = to + row * stride + column;
      if (packs) {
        *reinterpret_cast<uint4*>(at) = uint4{words[0], words[1], words[2], words[3]};
        continue;
      }
#pragma unroll
      for (int part = 0; part < 8; ++part)
        if (column + part < width) at[part].bits = static_cast<std::uint16_t>(words[part / 2] >> (part % 2 * 16));
    }
  }
}

}  // namespace tern::cuda::scaled_dot_product
