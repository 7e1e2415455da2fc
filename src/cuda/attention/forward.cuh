#pragma once
// The forward pass of attention: a block owns some rows of queries and loops over blocks of keys, keeping each row's
// largest score and sum so far (Milakov and Gimelshein, 2018; Dao and others, 2022). No scores are stored.

#include "cuda/attention/tiles.cuh"

namespace tern::cuda::scaled_dot_product {

template <class Tile, int Width, int Keys, int Warps>
constexpr std::size_t forward_bytes() {
  constexpr int rows = Warps * Tile::warp_rows;
  return sizeof(float) * ((rows + 2 * Keys) * pitch<Width> + rows * Tile::template stage_pitch<Keys>);
}

template <class Tile, int Width, int Keys, int Warps, int Resident>
__global__ void __launch_bounds__(32 * Warps, Resident) forward_kernel(Forward pass, Sizes sizes, float shift) {
  begin_kernel();
  extern __shared__ __align__(16) float shared[];
  constexpr int rows = Warps * Tile::warp_rows, threads = 32 * Warps;
  float *const queries = shared, *const keys = queries + rows * pitch<Width>,
               *const values = keys + Keys * pitch<Width>;
  const int warp = static_cast<int>(threadIdx.x) / 32, tiles = (sizes.queries + rows - 1) / rows;
  float* const stage = values + Keys * pitch<Width> + warp * Tile::warp_rows * Tile::template stage_pitch<Keys>;
  // Rows that see the most keys come first.
  const int block = static_cast<int>(blockIdx.x), head = sizes.causal ? block % sizes.heads : block / tiles;
  const int first = (sizes.causal ? tiles - 1 - block / sizes.heads : block % tiles) * rows;
  const int own = first + warp * Tile::warp_rows, seen = sizes.causal ? min(sizes.keys, first + rows) : sizes.keys;
  const auto matrix = [&](const float* from, int count, int width) {
    return from + static_cast<std::int64_t>(head) * count * width;
  };
  const float* const key = matrix(pass.key, sizes.keys, sizes.width);
  const float* const value = matrix(pass.value, sizes.keys, sizes.values);

  copy_tile<rows, Width, threads>(queries, matrix(pass.query, sizes.queries, sizes.width), first, sizes.queries,
                                  sizes.width, sizes.packs);
  copy_tile<Keys, Width, threads>(keys, key, 0, sizes.keys, sizes.width, sizes.packs);
  commit_copies();
  copy_tile<Keys, Width, threads>(values, value, 0, sizes.keys, sizes.values, sizes.packs);
  commit_copies();
  await_copies<1>();
  __syncthreads();
  prepare_tile<Tile, rows, Width, threads>(queries);

  typename Tile::template Sums<Width> sums;
  float top[Tile::rows], total[Tile::rows];  // the largest score; the sum of weights
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i) {
    top[i] = -INFINITY;
    total[i] = 0;
#pragma unroll
    for (int j = 0; j < sums.columns; ++j) sums.value(i, j) = 0;
  }
#pragma unroll 1
  for (int begin = 0; begin < seen; begin += Keys) {
    await_copies<1>();
    __syncthreads();
    const bool sees = !sizes.causal || begin < own + Tile::warp_rows;  // the same for all lanes
    typename Tile::template Sums<Keys> weights;
    if (sees) Tile::template scores<Keys, Width>(weights, queries + warp * Tile::warp_rows * pitch<Width>, keys);
    __syncthreads();
    if (begin + Keys < seen)
      copy_tile<Keys, Width, threads>(keys, key, begin + Keys, sizes.keys, sizes.width, sizes.packs);
    commit_copies();
    if (sees) {
      scale_scores<Tile>(weights, sizes.scale);
      if (begin + Keys > sizes.keys || (sizes.causal && begin + Keys > own + 1)) {  // not every row sees every key
#pragma unroll
        for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
          for (int j = 0; j < weights.columns; ++j) {
            const int column = begin + Tile::column(j);
            if (column >= sizes.keys || (sizes.causal && column > own + Tile::row(i))) weights.at(i, j) = -INFINITY;
          }
      }
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) {
        float largest = weights.at(i, 0);
#pragma unroll
        for (int j = 1; j < weights.columns; ++j) largest = fmaxf(largest, weights.at(i, j));
        largest = over_row<Tile>(largest, [](float a, float b) { return fmaxf(a, b); });
        // Scores lose their maximum before they are scaled: rounding a large product could exceed an exponent.
        const float now = fmaxf(top[i], largest), base = now == -INFINITY ? 0.0f : now;
        const float factor = power_of_2((top[i] - base) * log2_e);
        top[i] = now;
        float sum = 0;
#pragma unroll
        for (int j = 0; j < weights.columns; ++j) {
          weights.at(i, j) = power_of_2(fmaf(weights.at(i, j) - base, log2_e, -shift));
          sum += weights.at(i, j);
        }
        total[i] = fmaf(total[i], factor, sum);
#pragma unroll
        for (int j = 0; j < sums.columns; ++j) sums.value(i, j) *= factor;
      }
      Tile::template stage<Keys>(stage, weights);
    }
    await_copies<1>();
    __syncthreads();
    if (sees) Tile::template add<Keys, Width>(sums, weights, stage, values);
    __syncthreads();
    if (begin + Keys < seen)
      copy_tile<Keys, Width, threads>(values, value, begin + Keys, sizes.keys, sizes.values, sizes.packs);
    commit_copies();
  }
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i) {
    total[i] = over_row<Tile>(total[i], [](float a, float b) { return a + b; });
    const int row = own + Tile::row(i);
    if (pass.log_sum != nullptr && threadIdx.x % Tile::lanes_per_row == 0 && row < sizes.queries)
      pass.log_sum[static_cast<std::int64_t>(head) * sizes.queries + row] = fmaf(shift + log2f(total[i]), ln_2, top[i]);
  }
  write_rows<Tile, Width>(pass.out + static_cast<std::int64_t>(head) * sizes.queries * sizes.values, sums, own,
                          sizes.queries, sizes.values, sizes.packs, [&](int i) { return 1 / total[i]; });
}

}  // namespace tern::cuda::scaled_dot_product
