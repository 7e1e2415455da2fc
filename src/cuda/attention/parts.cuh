#pragma once
// Blocks that share the loop of some rows, where few rows would leave multiprocessors idle. Each has a part of the loop
// and stores its sums in float32; a second kernel adds them in their order.

#include <algorithm>
#include <cmath>

#include "cuda/attention/tiles.cuh"
#include "cuda/elementwise.cuh"

namespace tern::cuda::scaled_dot_product {

/// Blocks for a loop over `rows` with so many products each, where the products of all blocks are `share` for each
/// block that the card runs at once. A part reads more than it writes. A second kernel takes as long as 1,024 rows of
/// one product in 16 bits, and as 256 rows in float32.
template <class T>
int parts_for(std::int64_t rows, std::int64_t products, std::int64_t share) {
  constexpr std::int64_t most = 16, least_rows = 128, second_kernel = 1024;
  const std::int64_t wanted = std::clamp<std::int64_t>(
      std::min(rows * products / std::max<std::int64_t>(share, 1), rows / least_rows), 1, most);
  const std::int64_t saved = (rows - rows / wanted) * (is_half<T> ? products : 4);
  return saved >= second_kernel ? static_cast<int>(wanted) : 1;
}
/// The share of each block that the card runs at once: two of a multiprocessor slow one another, more do so fully. With
/// causality blocks have half of their products.
inline std::int64_t share_of(const Sizes& sizes, std::int64_t products, int resident) {
  return ceil_div(products / (sizes.causal ? 2 : 1), std::int64_t{card().multiprocessors} * std::min(resident, 2));
}
/// For each block of queries in the forward pass.
template <class T>
int forward_parts(const Sizes& sizes, std::int64_t blocks, int resident) {
  return parts_for<T>(sizes.keys, 2, share_of(sizes, blocks * sizes.keys * 2, resident));
}

/// Writes a warp's sums times `factor` to the rows from `first` on of `count`, which begin `stride` apart.
template <class Tile, int Width>
__device__ __forceinline__ void write_part(float* to, typename Tile::template Sums<Width>& sums, int first, int count,
                                           int width, std::int64_t stride, float factor) {
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
    for (int j = 0; j < sums.columns; ++j)
      if (const int row = first + Tile::row(i), column = Tile::value_column(j); row < count && column < width)
        to[row * stride + column] = sums.value(i, j) * factor;
}

/// What a block found of a row: the largest score, the sum of weights, and in `sums` [rows, parts, columns] the sum of
/// weighted values, or of the queries' gradients.
struct RowParts {
  int count = 1;
  float2* found = nullptr;  ///< [rows, parts]
  float* sums = nullptr;
};

/// Memory for the parts of all rows, and the kernel that joins them.
template <class T>
class ForwardParts {
 public:
  ForwardParts(Context& context, const Sizes& sizes, int parts)
      : rows_(std::int64_t{sizes.heads} * sizes.queries),
        scratch_(context, parts == 1 ? 0
                                     : static_cast<std::size_t>(rows_ * parts) *
                                           (sizeof(float2) + sizeof(float) * static_cast<std::size_t>(sizes.values))) {
    auto* const first = scratch_.template as<float2>();
    parts_ = {parts, first, reinterpret_cast<float*>(first + rows_ * parts)};
  }
  const RowParts& parts() const { return parts_; }
  void join(const Context& context, const Forward<T>& pass, const Sizes& sizes, float shift) const;

 private:
  std::int64_t rows_;
  Scratch scratch_;
  RowParts parts_;
};

inline constexpr int join_threads = 256;

/// A warp joins the parts of a row, of which there are at most 32.
template <class T>
__global__ void __launch_bounds__(join_threads)
    join_rows(Forward<T> pass, Sizes sizes, std::int64_t rows, float shift, RowParts partial) {
  begin_kernel();
  const std::int64_t row = std::int64_t{blockIdx.x} * (join_threads / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = row * partial.count;
  const float2 found = lane < partial.count ? partial.found[first + lane] : float2{-INFINITY, 0};
  float top = found.x;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, distance));
  const float base = top == -INFINITY ? 0.0f : top, factor = power_of_2((found.x - base) * log2_e);
  float total = found.y * factor;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) total += __shfl_xor_sync(~0u, total, distance);
  const float* const sums = partial.sums + first * sizes.values + lane;
  float sum[most_width / 32] = {};
#pragma unroll 4
  for (int part = 0; part < partial.count; ++part) {
    const float of_part = __shfl_sync(~0u, factor, part);
#pragma unroll
    for (int i = 0; i < most_width / 32; ++i)
      if (lane + 32 * i < sizes.values) sum[i] = fmaf(sums[part * sizes.values + 32 * i], of_part, sum[i]);
  }
  const int head = static_cast<int>(row / sizes.queries);
  T* const out = sizes.of_head(pass.out, sizes.out, head) + row % sizes.queries * sizes.out.row + lane;
#pragma unroll
  for (int i = 0; i < most_width / 32; ++i)
    if (lane + 32 * i < sizes.values) put(out[32 * i], sum[i] * (1 / total));
  if (lane == 0 && pass.log_sum != nullptr) pass.log_sum[row] = fmaf(shift + log2f(total), ln_2, top);
}

template <class T>
void ForwardParts<T>::join(const Context& context, const Forward<T>& pass, const Sizes& sizes, float shift) const {
  if (parts_.count > 1)
    launch(context, Grid(static_cast<unsigned>(ceil_div(rows_, join_threads / 32)), join_threads), join_rows<T>, pass,
           sizes, rows_, shift, parts_);
}

}  // namespace tern::cuda::scaled_dot_product
