#pragma once
// The gradients of attention. The weights are recomputed from the rows' log-sum-exp. Some blocks own rows of keys and
// loop over the queries, for the gradients of keys and values; the others own rows of queries and loop over the keys.
// Every sum has one block and one order.

#include "cuda/attention/half_tiles.cuh"

namespace tern::cuda::scaled_dot_product {

/// inner = sum of grad * out over each row of `width`; one thread per row. It adds in the order of FusedTile::scores,
/// so that a row with all its weight on one key has a gradient of exactly 0. `packs`: rows are multiples of 16 bytes.
inline __global__ void inner_kernel(float* inner, const float* grad, const float* out, std::int64_t rows, Sizes sizes,
                                    bool packs) {
  begin_kernel();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const int width = sizes.values;
  grad = sizes.of_head(grad, sizes.grad, static_cast<int>(row / sizes.queries)) + row % sizes.queries * sizes.grad.row;
  out = sizes.of_head(out, sizes.out, static_cast<int>(row / sizes.queries)) + row % sizes.queries * sizes.out.row;
  float sum = 0;
  if (packs) {
#pragma unroll 4
    for (int i = 0; i < width; i += 4) {
      const float4 left = *reinterpret_cast<const float4*>(grad + i), right = *reinterpret_cast<const float4*>(out + i);
      sum = fmaf(left.x, right.x, sum);
      sum = fmaf(left.y, right.y, sum);
      sum = fmaf(left.z, right.z, sum);
      sum = fmaf(left.w, right.w, sum);
    }
  } else {
    for (int i = 0; i < width; ++i) sum = fmaf(grad[i], out[i], sum);
  }
  inner[row] = sum;
}

template <class Tile, int Width, int Step, int Warps, int Stages>
struct BackwardShape {
  static constexpr int rows = Warps * Tile::warp_rows, threads = 32 * Warps;
  using Element = typename Tile::Element;
  static constexpr int own = rows * pitch<Width, Element>, other = Step * pitch<Width, Element>;
  static constexpr std::size_t bytes = sizeof(Element) * (2 * own + 2 * Stages * other) +
                                       sizeof(float) * (rows * Tile::template stage_pitch<Step> + 2 * Stages * Step);
};

/// A warp's rows from `mine` on, of the keys (OfKeys) or of the queries, and `Step` of the `count` others from `begin`
/// on.
template <bool OfKeys, class Tile, int Step>
struct Window {
  int mine, begin, count;
  bool causal;

  /// Whether any query sees any key, and whether all see all.
  __device__ __forceinline__ bool sees() const { return !causal || ahead() < (OfKeys ? Step : Tile::warp_rows); }
  __device__ __forceinline__ bool sees_all() const {
    return begin + Step <= count && (!causal || ahead() + (OfKeys ? Tile::warp_rows : Step) - 1 <= 0);
  }

  /// Weights from scores and the log-sum-exp of the queries, which are rows, or columns (OfKeys).
  template <class Sums>
  __device__ __forceinline__ void weigh(Sums& weights, const float* of_rows, const float* of_columns) const {
    const bool all = sees_all();
#pragma unroll
    for (int j = 0; j < weights.columns; ++j) {
      const float column_log = OfKeys ? of_columns[Tile::column(j)] : 0.0f;
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) {
        weights.at(i, j) = power_of_2((weights.at(i, j) - (OfKeys ? column_log : of_rows[OfKeys ? 0 : i])) * log2_e);
        if (all) continue;
        const int row = mine + Tile::row(i), column = begin + Tile::column(j);
        if (column >= count || (causal && (OfKeys ? row > column : column > row))) weights.at(i, j) = 0;
      }
    }
  }
  /// Gradients of scores from those of weights, and the queries' inner products.
  template <class Sums>
  __device__ __forceinline__ void pass(Sums& grads, Sums& weights, const float* stage, const float* of_rows,
                                       const float* of_columns) const {
#pragma unroll
    for (int j = 0; j < weights.columns; ++j) {
      const float column_inner = OfKeys ? of_columns[Tile::column(j)] : 0.0f;
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) {
        float weight = weights.at(i, j);
        if constexpr (OfKeys && Tile::staged) weight = Tile::template staged_weight<Step>(stage, i, j);
        const float gradient = weight * (grads.at(i, j) - (OfKeys ? column_inner : of_rows[OfKeys ? 0 : i]));
        grads.at(i, j) = weight == 0 ? 0 : gradient;
      }
    }
  }

 private:
  /// The position of the first key relative to the first query.
  __device__ __forceinline__ int ahead() const { return OfKeys ? mine - begin : begin - mine; }
};

/// Copies ahead what a query's column needs: its log-sum-exp, and its inner product `step` columns behind.
template <int Step>
__device__ __forceinline__ void copy_columns(float* to, const float* log_sum, const float* inner, int from, int count) {
  if (threadIdx.x >= Step) return;
  const int at = from + static_cast<int>(threadIdx.x);
  const bool inside = at < count;
  copy_async<1>(to + threadIdx.x, log_sum + (inside ? at : 0), inside);
  copy_async<1>(to + threadIdx.x + Step, inner + (inside ? at : 0), inside);
}

/// The rows from `first` on, of the keys (OfKeys) or of the queries.
template <bool OfKeys, class Tile, int Width, int Step, int Warps, int Stages>
__device__ __forceinline__ void differentiate(const Backward<typename Tile::Element>& pass, const Sizes& sizes,
                                              int head, int first, float* shared) {
  using Element = typename Tile::Element;
  using Shape = BackwardShape<Tile, Width, Step, Warps, Stages>;
  constexpr int rows = Shape::rows, threads = Shape::threads;
  // Scores are `own` times `other`, gradients of weights `own_value` times `other_value`.
  auto* const own = reinterpret_cast<Element*>(shared);
  Element *const own_value = own + Shape::own, *const others = own_value + Shape::own;
  auto* const of_columns = reinterpret_cast<float*>(others + 2 * Stages * Shape::other);
  constexpr int distance = pitch<Width, Element>;
  const int warp = static_cast<int>(threadIdx.x) / 32, mine = first + warp * Tile::warp_rows;
  float* const stage = of_columns + 2 * Stages * Step + warp * Tile::warp_rows * Tile::template stage_pitch<Step>;
  const auto matrix = [&](auto* from, int count, int width) {
    return from + static_cast<std::int64_t>(head) * count * width;
  };
  const Element *const query = sizes.of_head(pass.query, sizes.query, head),
                       *const grad = sizes.of_head(pass.grad, sizes.grad, head),
                       *const key = sizes.of_head(pass.key, sizes.key, head),
                       *const value = sizes.of_head(pass.value, sizes.value, head);
  const float *const log_sum = matrix(pass.log_sum, sizes.queries, 1), *const inner =
                                                                           matrix(pass.inner, sizes.queries, 1);
  const int own_count = OfKeys ? sizes.keys : sizes.queries, count = OfKeys ? sizes.queries : sizes.keys;
  int begin = 0, end = count;
  if (sizes.causal) {
    begin = OfKeys ? first / Step * Step : 0;
    end = OfKeys ? count : min(count, first + rows);
  }

  const auto load = [&](int from) {
    Element* const to = others + from / Step % Stages * 2 * Shape::other;
    copy_tile<Step, Width, threads>(to, OfKeys ? query : key, from, count, sizes.width,
                                    OfKeys ? sizes.query.row : sizes.key.row, sizes.packs);
    copy_tile<Step, Width, threads>(to + Shape::other, OfKeys ? grad : value, from, count, sizes.values,
                                    OfKeys ? sizes.grad.row : sizes.value.row, sizes.packs);
    if constexpr (OfKeys) copy_columns<Step>(of_columns + from / Step % Stages * 2 * Step, log_sum, inner, from, count);
  };
  copy_tile<rows, Width, threads>(own, OfKeys ? key : query, first, own_count, sizes.width,
                                  OfKeys ? sizes.key.row : sizes.query.row, sizes.packs);
  copy_tile<rows, Width, threads>(own_value, OfKeys ? value : grad, first, own_count, sizes.values,
                                  OfKeys ? sizes.value.row : sizes.grad.row, sizes.packs);
  if (begin < end) load(begin);
  commit_copies();
  await_copies<0>();
  __syncthreads();
  prepare_tile<Tile, rows, Width, threads>(own);
  prepare_tile<Tile, rows, Width, threads>(own_value);

  using Sums = typename Tile::template Sums<Width>;
  Sums sums, value_sums;  // gradients of queries or keys, and of values
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
    for (int j = 0; j < Sums::columns; ++j) sums.value(i, j) = value_sums.value(i, j) = 0;
  float row_log[OfKeys ? 1 : Tile::rows], row_inner[OfKeys ? 1 : Tile::rows];
  if constexpr (!OfKeys) {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const int row = mine + Tile::row(i);
      row_log[i] = row < own_count ? log_sum[row] : 0.0f;
      row_inner[i] = row < own_count ? inner[row] : 0.0f;
    }
  }
#pragma unroll 1
  for (; begin < end; begin += Step) {
    if constexpr (Stages > 1) {
      if (begin + Step < end) load(begin + Step);
      commit_copies();
    }
    await_copies<Stages - 1>();
    __syncthreads();
    const Element* const other = others + begin / Step % Stages * 2 * Shape::other;
    const Element* const other_value = other + Shape::other;
    const float* const columns = of_columns + begin / Step % Stages * 2 * Step;
    const Window<OfKeys, Tile, Step> window{mine, begin, count, sizes.causal};
    if (window.sees()) {
      typename Tile::template Sums<Step> weights, grads;
      Tile::template scores<Step, Width>(weights, own + warp * Tile::warp_rows * distance, other);
      scale_scores<Tile>(weights, sizes.scale);
      window.weigh(weights, row_log, columns);
      if constexpr (OfKeys) {
        Tile::template stage<Step>(stage, weights);
        Tile::template add<Step, Width>(value_sums, weights, stage, other_value);
      }
      Tile::template scores<Step, Width>(grads, own_value + warp * Tile::warp_rows * distance, other_value);
      window.pass(grads, weights, stage, row_inner, columns + Step);
      Tile::template stage<Step>(stage, grads);
      Tile::template add<Step, Width>(sums, grads, stage, other);
    }
    __syncthreads();
    if constexpr (Stages == 1) {
      if (begin + Step < end) load(begin + Step);
      commit_copies();
    }
  }
  Element* const to = OfKeys ? pass.grad_key : pass.grad_query;
  const kernels::HeadStrides& strides = OfKeys ? sizes.grad_key : sizes.grad_query;
  if (to != nullptr)
    write_rows<Tile, Width>(sizes.of_head(to, strides, head), sums, mine, own_count, sizes.width, strides.row,
                            sizes.packs, [&](int) { return sizes.scale; });
  if constexpr (OfKeys)
    if (pass.grad_value != nullptr)
      write_rows<Tile, Width>(sizes.of_head(pass.grad_value, sizes.grad_value, head), value_sums, mine, sizes.keys,
                              sizes.values, sizes.grad_value.row, sizes.packs, [](int) { return 1.0f; });
}

/// The first `key_blocks` blocks own keys, the others queries; those with the most work come first.
template <class Tile, int Width, int Step, int Warps, int Stages, int Resident>
__global__ void __launch_bounds__(32 * Warps, Resident)
    backward_kernel(Backward<typename Tile::Element> pass, Sizes sizes, int key_blocks) {
  begin_kernel();
  extern __shared__ __align__(16) float shared[];
  constexpr int rows = Warps * Tile::warp_rows;
  const int block = static_cast<int>(blockIdx.x), key_tiles = (sizes.keys + rows - 1) / rows;
  if (block < key_blocks) {
    const int head = sizes.causal ? block % sizes.heads : block / key_tiles;
    const int tile = sizes.causal ? block / sizes.heads : block % key_tiles;
    differentiate<true, Tile, Width, Step, Warps, Stages>(pass, sizes, head, tile * rows, shared);
    return;
  }
  const int rest = block - key_blocks, tiles = (sizes.queries + rows - 1) / rows;
  const int head = sizes.causal ? rest % sizes.heads : rest / tiles;
  const int tile = sizes.causal ? tiles - 1 - rest / sizes.heads : rest % tiles;
  differentiate<false, Tile, Width, Step, Warps, Stages>(pass, sizes, head, tile * rows, shared);
}

template <class Tile, int Width, int Step, int Warps, int Stages, int Resident>
struct BackwardLaunch : BackwardShape<Tile, Width, Step, Warps, Stages> {
  using Base = BackwardShape<Tile, Width, Step, Warps, Stages>;

  static void run(const Context& context, const Backward<typename Tile::Element>& pass, const Sizes& sizes) {
    constexpr auto kernel = backward_kernel<Tile, Width, Step, Warps, Stages, Resident>;
    const bool of_keys = pass.grad_key != nullptr || pass.grad_value != nullptr;
    const auto blocks = [&](bool wanted, std::int64_t count) {
      return wanted ? static_cast<unsigned>(sizes.heads * ceil_div(count, Base::rows)) : 0u;
    };
    const unsigned key_blocks = blocks(of_keys, sizes.keys);
    launch(context, Grid(key_blocks + blocks(pass.grad_query != nullptr, sizes.queries), Base::threads, Base::bytes),
           kernel, pass, sizes, static_cast<int>(key_blocks));
  }
};

}  // namespace tern::cuda::scaled_dot_product
