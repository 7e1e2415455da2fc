#pragma once
// What the forward kernels share: a block's place, its rows' largest scores and sums of weights, and its results.

#include <cmath>

#include "cuda/attention/parts.cuh"

namespace tern::cuda::scaled_dot_product {

/// A block of the forward pass: its head, its first query, and the keys of its part, by `Keys` at a time.
template <int Rows, int Keys>
struct ForwardPlace {
  int head, first, part, begin, end;

  __device__ __forceinline__ ForwardPlace(const Sizes& sizes, int parts) {
    const int tiles = (sizes.queries + Rows - 1) / Rows, block = static_cast<int>(blockIdx.x) / parts;
    part = static_cast<int>(blockIdx.x) % parts;
    // Rows that see the most keys come first.
    head = sizes.causal ? block % sizes.heads : block / tiles;
    first = (sizes.causal ? tiles - 1 - block / sizes.heads : block % tiles) * Rows;
    const int seen = sizes.causal ? min(sizes.keys, first + Rows) : sizes.keys, steps = (seen + Keys - 1) / Keys;
    begin = steps * part / parts * Keys, end = min(seen, steps * (part + 1) / parts * Keys);
  }
};

/// What a thread knows of its rows.
template <class Tile, int Keys>
struct RowsSoFar {
  using Scores = typename Tile::template Sums<Keys>;
  float top[Tile::rows], total[Tile::rows];  ///< the largest score; the sum of weights

  __device__ __forceinline__ RowsSoFar() {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) top[i] = -INFINITY, total[i] = 0;
  }
  /// Of the keys from `begin` on, those that a row does not see; `own` is the warp's first row.
  static __device__ __forceinline__ void hide(Scores& scores, const Sizes& sizes, int begin, int own) {
    if (begin + Keys <= sizes.keys && (!sizes.causal || begin + Keys <= own + 1)) return;  // all see all
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const int seen = sizes.causal ? min(sizes.keys, own + Tile::row(i) + 1) : sizes.keys;
#pragma unroll
      for (int j = 0; j < Scores::columns; ++j)  // a constant beside a number of the row
        if (Tile::column(j) - Tile::column(0) >= seen - begin - Tile::column(0)) scores.at(i, j) = -INFINITY;
    }
  }
  /// Scores become weights; earlier ones are to be multiplied by `factor`. Scores lose their maximum before they are
  /// scaled: rounding a large product could exceed an exponent.
  __device__ __forceinline__ void weigh(Scores& scores, float (&factor)[Tile::rows], float scale, float shift) {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      float largest = scores.at(i, 0);
#pragma unroll
      for (int j = 1; j < Scores::columns; ++j) largest = fmaxf(largest, scores.at(i, j));
      largest = over_row<Tile>(largest, [](float a, float b) { return fmaxf(a, b); });
      const float now = fmaxf(top[i], largest), base = now == -INFINITY ? 0.0f : now;
      factor[i] = power_of_2((top[i] - base) * scale);
      top[i] = now;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < Scores::columns; ++j) {
        scores.at(i, j) = power_of_2(fmaf(scores.at(i, j) - base, scale, -shift));
        sum += scores.at(i, j);
      }
      total[i] = fmaf(total[i], factor[i], sum);
    }
  }
};

/// Writes a warp's results, or those of a part, and the rows' log-sum-exp: `top` is the largest score of each row,
/// `total` this thread's part of the sum of weights.
template <class Tile, int Width, class T>
__device__ __forceinline__ void write_results(const Forward<T>& pass, const Sizes& sizes, const RowParts& partial,
                                              float shift, int head, int part, int own, const float (&top)[Tile::rows],
                                              float (&total)[Tile::rows], typename Tile::template Sums<Width>& sums) {
  const std::int64_t of_head = std::int64_t{head} * sizes.queries;
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i) {
    total[i] = over_row<Tile>(total[i], [](float a, float b) { return a + b; });
    const int row = own + Tile::row(i);
    if (threadIdx.x % Tile::lanes_per_row != 0 || row >= sizes.queries) continue;
    if (partial.count > 1)
      partial.found[(of_head + row) * partial.count + part] = float2{top[i], total[i]};
    else if (pass.log_sum != nullptr)
      pass.log_sum[of_head + row] = fmaf(shift + log2f(total[i]), ln_2, top[i]);
  }
  if (partial.count > 1)
    write_part<Tile, Width>(partial.sums + (of_head * partial.count + part) * sizes.values, sums, own, sizes.queries,
                            sizes.values, std::int64_t{partial.count} * sizes.values, 1.0f);
  else
    write_rows<Tile, Width>(sizes.of_head(pass.out, sizes.out, head), sums, own, sizes.queries, sizes.values,
                            sizes.out.row, sizes.packs, [&](int i) { return 1 / total[i]; });
}

}  // namespace tern::cuda::scaled_dot_product
