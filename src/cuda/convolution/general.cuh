#pragma once
// Shared by the three passes of the general convolutions.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/elementwise.cuh"

namespace tern::cuda::convolution::general {

// Every pass is a matrix product whose factors are gathered in place, element by element: 64 x 64 outputs per block, 16
// k at a time, 4 x 4 outputs per thread.
constexpr int tile = 64, depth = 16, threads = 256, part = 4, pitch = tile + 4;

/// The problem in the form that the loaders need.
struct Geometry {
  int C, H, W, O, KH, KW, OH, OW;  // C and O per group
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
  int positions, inputs;  // N OH OW and N H W
  Divisor<std::uint32_t> area, width, window, window_width, stride_rows, stride_columns, in_area, in_width;
  int first_group = 0;  // of this launch
};

inline Geometry geometry(const Problem& s) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  expects<ShapeError>(s.N * s.OH * s.OW < most - tile && s.N * s.H * s.W < most - tile &&
                          s.C * s.KH * s.KW < most - tile && s.O * s.KH * s.KW < most - tile,
                      "cuda conv2d: expected fewer than 2^31 positions, came ", s.N, " images of ", s.OH, " x ", s.OW,
                      "; split the batch");
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  using Divide = Divisor<std::uint32_t>;
  Geometry g{};
  g.C = i(s.C / s.groups), g.H = i(s.H), g.W = i(s.W), g.O = i(s.O / s.groups), g.groups = i(s.groups);
  g.KH = i(s.KH), g.KW = i(s.KW), g.OH = i(s.OH), g.OW = i(s.OW);
  g.stride_h = i(s.stride_h), g.stride_w = i(s.stride_w), g.pad_h = i(s.pad_h), g.pad_w = i(s.pad_w);
  g.dilation_h = i(s.dilation_h), g.dilation_w = i(s.dilation_w);
  g.positions = i(s.positions()), g.inputs = i(s.N * s.H * s.W);
  g.area = Divide(s.OH * s.OW), g.width = Divide(s.OW), g.window = Divide(s.KH * s.KW), g.window_width = Divide(s.KW);
  g.stride_rows = Divide(s.stride_h), g.stride_columns = Divide(s.stride_w);
  g.in_area = Divide(s.H * s.W), g.in_width = Divide(s.W);
  return g;
}

// A loader fetches `part` elements per thread of a 64 x 16 stage. With k_first, adjacent threads hold adjacent k of
// rows 16 apart; otherwise adjacent rows of k 4 apart.
template <bool KFirst>
struct Places {
  static __device__ __forceinline__ int row(int i) {
    return KFirst ? static_cast<int>(threadIdx.x) / depth + i * (threads / depth)
                  : static_cast<int>(threadIdx.x) % tile;
  }
  static __device__ __forceinline__ int k(int i) {
    return KFirst ? static_cast<int>(threadIdx.x) % depth : static_cast<int>(threadIdx.x) / tile + i * (threads / tile);
  }
};

/// sum += a b over [k_begin, k_end); row_sum (if with_sums) += a.
template <class T, class A, class B>
__device__ __forceinline__ void multiply(T (&sum)[part][part], T (&row_sum)[part], A& a, B& b, int k_begin, int k_end,
                                         bool with_sums) {
  __shared__ __align__(16) T stage_a[2][depth][pitch];
  __shared__ __align__(16) T stage_b[2][depth][pitch];
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
  T next_a[part], next_b[part];
  const auto load = [&](int k0) {
    a.load(next_a, k0, k_end);
    b.load(next_b, k0, k_end);
  };
  const auto store = [&](int parity) {
#pragma unroll
    for (int i = 0; i < part; ++i) {
      stage_a[parity][A::Place::k(i)][A::Place::row(i)] = next_a[i];
      stage_b[parity][B::Place::k(i)][B::Place::row(i)] = next_b[i];
    }
  };
  load(k_begin);
  store(0);
  __syncthreads();
  int parity = 0;
  for (int k0 = k_begin; k0 < k_end; k0 += depth) {
    const bool more = k0 + depth < k_end;
    if (more) load(k0 + depth);
#pragma unroll
    for (int k = 0; k < depth; ++k) {
      T left[part], right[part];
#pragma unroll
      for (int i = 0; i < part; ++i) left[i] = stage_a[parity][k][ty * part + i];
#pragma unroll
      for (int i = 0; i < part; ++i) right[i] = stage_b[parity][k][tx * part + i];
#pragma unroll
      for (int r = 0; r < part; ++r)
#pragma unroll
        for (int c = 0; c < part; ++c) sum[r][c] = fma(left[r], right[c], sum[r][c]);
      if (with_sums) {
#pragma unroll
        for (int r = 0; r < part; ++r) row_sum[r] += left[r];
      }
    }
    if (more) {
      parity ^= 1;
      store(parity);
      __syncthreads();
    }
  }
}

}  // namespace tern::cuda::convolution::general
