#pragma once
// What warpgroups make of scores and of gradients of weights in the backward pass, for 64 rows and `Step` columns.

#include "cuda/attention/group_tiles.cuh"
#include "cuda/attention/sizes.cuh"

namespace tern::cuda::scaled_dot_product {

/// A warp's rows from `mine` on, of the keys (OfKeys) or of the queries, and `Step` of the `count` others from `begin`
/// on.
template <bool OfKeys, class Tile, int Step>
struct GroupWindow {
  int mine, begin, count;
  bool causal;
  float scale;

  /// Weights from products of queries and keys, and the log-sum-exp of the queries, which are rows, or columns
  /// (OfKeys).
  template <class Sums>
  __device__ __forceinline__ void weigh(Sums& weights, const float* of_rows, const float* of_columns) const {
    float times = scale * log2_e, less = log2_e;
    if (far(of_rows, of_columns)) {  // as the forward pass rounds large scores
#pragma unroll
      for (int j = 0; j < weights.columns; ++j)
#pragma unroll
        for (int i = 0; i < Tile::rows; ++i)
          weights.at(i, j) = __fmul_rn(weights.at(i, j), scale) - number(of_rows, of_columns, i, j);
      times = log2_e, less = 0;
    }
#pragma unroll
    for (int j = 0; j < weights.columns; ++j)
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i)
        weights.at(i, j) = power_of_2(fmaf(weights.at(i, j), times, -less * number(of_rows, of_columns, i, j)));
    if (sees_all()) return;
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const int row = mine + Tile::row(i), seen = causal && !OfKeys ? min(count, row + 1) : count;
      const int first = causal && OfKeys ? row : begin;  // of the columns that the row sees
#pragma unroll
      for (int j = 0; j < weights.columns; ++j) {  // a constant beside numbers of the row
        const int column = Tile::column(j) - Tile::column(0);
        if (column >= seen - begin - Tile::column(0) || (OfKeys && column < first - begin - Tile::column(0)))
          weights.at(i, j) = 0;
      }
    }
  }
  /// Gradients of scores from those of weights, and the queries' inner products. Where a row does not see a column they
  /// are 0 even if the gradient is not finite.
  template <class Sums>
  __device__ __forceinline__ void pass(Sums& grads, Sums& weights, const float* of_rows,
                                       const float* of_columns) const {
#pragma unroll
    for (int j = 0; j < weights.columns; ++j)
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) grads.at(i, j) -= number(of_rows, of_columns, i, j);
#pragma unroll
    for (int j = 0; j < weights.columns; ++j)
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) grads.at(i, j) *= weights.at(i, j);
    if (sees_all()) return;
#pragma unroll
    for (int j = 0; j < weights.columns; ++j)
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i)
        if (weights.at(i, j) == 0) grads.at(i, j) = 0;
  }

 private:
  __device__ __forceinline__ bool sees_all() const {
    const int ahead = OfKeys ? mine - begin : begin - mine;
    return begin + Step <= count && (!causal || ahead + (OfKeys ? 16 : Step) - 1 <= 0);
  }
  static __device__ __forceinline__ float number(const float* of_rows, const float* of_columns, int i, int j) {
    return OfKeys ? of_columns[Tile::column(j)] : of_rows[OfKeys ? 0 : i];
  }
  /// Whether the log-sum-exp of some query is so large that its product must not be rounded.
  static __device__ __forceinline__ bool far(const float* of_rows, const float* of_columns) {
    constexpr float most = most_folded / log2_e;
    float farthest = 0;
    if constexpr (OfKeys) {
#pragma unroll
      for (int i = 0; i < Step; i += 32)
        farthest = fmaxf(farthest, fabsf(of_columns[i + static_cast<int>(threadIdx.x) % 32]));
    } else {
      farthest = fmaxf(fabsf(of_rows[0]), fabsf(of_rows[1]));
    }
    return __any_sync(~0u, farthest > most);
  }
};

}  // namespace tern::cuda::scaled_dot_product
