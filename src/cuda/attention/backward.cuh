#pragma once
// The gradients of attention. The weights are recomputed from the rows' log-sum-exp. Some blocks own rows of keys and
// loop over the queries, for the gradients of keys and values; the others own rows of queries and loop over the keys.
// Every sum has one block and one order.

#include <algorithm>

#include "cuda/attention/half_tiles.cuh"

namespace tern::cuda::scaled_dot_product {

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

/// The rows that a block owns, of the keys (OfKeys) or of the queries, and the steps that it takes through the others:
/// blocks of keys through the queries of all heads that share them. The parts of the steps have blocks of their own.
template <bool OfKeys, class T, int Rows, int Step>
struct Walk {
  const Backward<T>& pass;
  const Sizes& sizes;
  int head, first, part;  ///< the first head
  int at, end;            ///< steps

  __device__ __forceinline__ Walk(const Backward<T>& of, const Sizes& with, int block) : pass(of), sizes(with) {
    const int tiles = (own_count() + Rows - 1) / Rows, heads = OfKeys ? sizes.heads / sizes.sharing : sizes.heads;
    const int parts = OfKeys ? sizes.parts : 1;
    part = block % parts, block /= parts;
    // With causality those with the most steps come first.
    const int tile = !sizes.causal ? block % tiles : OfKeys ? block / heads : tiles - 1 - block / heads;
    head = (sizes.causal ? block % heads : block / tiles) * (OfKeys ? sizes.sharing : 1), first = tile * Rows;
    begin_ = sizes.causal && OfKeys ? first / Step * Step : 0;
    last_ = sizes.causal && !OfKeys ? min(count(), first + Rows) : count();
    const int of_head = max(0, (last_ - begin_ + Step - 1) / Step), steps = of_head * (OfKeys ? sizes.sharing : 1);
    at = steps * part / parts, end = steps * (part + 1) / parts;
    if (at < end) turn_to(head + at / of_head), row_ = begin_ + at % of_head * Step;
  }
  __device__ __forceinline__ int own_count() const { return OfKeys ? sizes.keys : sizes.queries; }
  __device__ __forceinline__ int count() const { return OfKeys ? sizes.queries : sizes.keys; }
  __device__ __forceinline__ const float* numbers(const float* of, int of_head) const {
    return of + static_cast<std::int64_t>(of_head) * sizes.queries;
  }

  /// The block's own rows, by copy(to, matrix, first row, rows there are, width, stride).
  template <class Copy>
  __device__ __forceinline__ void load_own(T* scores, T* values, const Copy& copy) const {
    copy(scores, sizes.of_head(OfKeys ? pass.key : pass.query, OfKeys ? sizes.key : sizes.query, head), first,
         own_count(), sizes.width, (OfKeys ? sizes.key : sizes.query).row);
    copy(values, sizes.of_head(OfKeys ? pass.value : pass.grad, OfKeys ? sizes.value : sizes.grad, head), first,
         own_count(), sizes.values, (OfKeys ? sizes.value : sizes.grad).row);
  }
  /// The rows of the next step, of which it returns the first one.
  template <class Copy>
  __device__ __forceinline__ int load_next(T* scores, T* values, float* of_columns, const Copy& copy) {
    if (row_ >= last_) turn_to(head_ + 1), row_ = begin_;
    copy(scores, scores_, row_, count(), sizes.width, (OfKeys ? sizes.query : sizes.key).row);
    copy(values, values_, row_, count(), sizes.values, (OfKeys ? sizes.grad : sizes.value).row);
    if constexpr (OfKeys)
      copy_columns<Step>(of_columns, numbers(pass.log_sum, head_), numbers(pass.inner, head_), row_, count());
    row_ += Step;
    return row_ - Step;
  }

  /// Writes a warp's sums times `factor` as gradients, or as those of a part.
  template <class Tile, int Width>
  __device__ __forceinline__ void write(T* to, float* parts, const kernels::HeadStrides& strides, int width, int mine,
                                        float factor, typename Tile::template Sums<Width>& sums) const {
    if (to == nullptr) return;
    if (!OfKeys || sizes.parts == 1)
      return write_rows<Tile, Width>(sizes.of_head(to, strides, head), sums, mine, own_count(), width, strides.row,
                                     sizes.packs, [&](int) { return factor; });
    const std::int64_t all = std::int64_t{sizes.heads / sizes.sharing} * own_count() * width;
    parts += part * all + std::int64_t{head / sizes.sharing} * own_count() * width;
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
      for (int j = 0; j < sums.columns; ++j)
        if (const int row = mine + Tile::row(i), column = Tile::value_column(j); row < own_count() && column < width)
          parts[std::int64_t{row} * width + column] = sums.value(i, j) * factor;
  }

 private:
  __device__ __forceinline__ void turn_to(int of) {
    head_ = of;
    scores_ = sizes.of_head(OfKeys ? pass.query : pass.key, OfKeys ? sizes.query : sizes.key, of);
    values_ = sizes.of_head(OfKeys ? pass.grad : pass.value, OfKeys ? sizes.grad : sizes.value, of);
  }

  int begin_, last_, row_ = 0, head_ = 0;  // the other rows of each head; the next step
  const T *scores_ = nullptr, *values_ = nullptr;
};

/// The gradients of a block's rows.
template <bool OfKeys, class Tile, int Width, int Step, int Warps, int Stages>
__device__ __forceinline__ void differentiate(const Backward<typename Tile::Element>& pass, const Sizes& sizes,
                                              int block, float* shared) {
  using Element = typename Tile::Element;
  using Shape = BackwardShape<Tile, Width, Step, Warps, Stages>;
  constexpr int rows = Shape::rows, threads = Shape::threads;
  Walk<OfKeys, Element, rows, Step> walk(pass, sizes, block);
  // Scores are `own` times `other`, gradients of weights `own_value` times `other_value`.
  auto* const own = reinterpret_cast<Element*>(shared);
  Element *const own_value = own + Shape::own, *const others = own_value + Shape::own;
  auto* const of_columns = reinterpret_cast<float*>(others + 2 * Stages * Shape::other);
  constexpr int distance = pitch<Width, Element>;
  const int warp = static_cast<int>(threadIdx.x) / 32, mine = walk.first + warp * Tile::warp_rows;
  float* const stage = of_columns + 2 * Stages * Step + warp * Tile::warp_rows * Tile::template stage_pitch<Step>;
  const auto load = [&](int step) {
    Element* const to = others + step % Stages * 2 * Shape::other;
    return walk.load_next(to, to + Shape::other, of_columns + step % Stages * 2 * Step,
                          [&](auto... of) { copy_tile<Step, Width, threads>(of..., sizes.packs); });
  };
  walk.load_own(own, own_value, [&](auto... of) { copy_tile<rows, Width, threads>(of..., sizes.packs); });
  int loaded = walk.at < walk.end ? load(walk.at) : 0;
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
      row_log[i] = row < sizes.queries ? walk.numbers(pass.log_sum, walk.head)[row] : 0.0f;
      row_inner[i] = row < sizes.queries ? walk.numbers(pass.inner, walk.head)[row] : 0.0f;
    }
  }
#pragma unroll 1
  for (int step = walk.at; step < walk.end; ++step) {
    const bool more = step + 1 < walk.end;
    const int begin = loaded;
    if constexpr (Stages > 1) {
      if (more) loaded = load(step + 1);
      commit_copies();
    }
    await_copies<Stages - 1>();
    __syncthreads();
    const Element* const other = others + step % Stages * 2 * Shape::other;
    const Element* const other_value = other + Shape::other;
    const float* const columns = of_columns + step % Stages * 2 * Step;
    const Window<OfKeys, Tile, Step> window{mine, begin, walk.count(), sizes.causal};
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
      if (more) loaded = load(step + 1);
      commit_copies();
    }
  }
  walk.template write<Tile, Width>(OfKeys ? pass.grad_key : pass.grad_query, pass.key_parts,
                                   OfKeys ? sizes.grad_key : sizes.grad_query, sizes.width, mine, sizes.scale, sums);
  if constexpr (OfKeys)
    walk.template write<Tile, Width>(pass.grad_value, pass.value_parts, sizes.grad_value, sizes.values, mine, 1.0f,
                                     value_sums);
}

/// The first `key_blocks` blocks own keys, the others queries.
template <class Tile, int Width, int Step, int Warps, int Stages, int Resident>
__global__ void __launch_bounds__(32 * Warps, Resident)
    backward_kernel(Backward<typename Tile::Element> pass, Sizes sizes, int key_blocks) {
  begin_kernel();
  extern __shared__ __align__(16) float shared[];
  const int block = static_cast<int>(blockIdx.x);
  if (block < key_blocks)
    differentiate<true, Tile, Width, Step, Warps, Stages>(pass, sizes, block, shared);
  else
    differentiate<false, Tile, Width, Step, Warps, Stages>(pass, sizes, block - key_blocks, shared);
}

/// The sums of the parts of gradients of keys or values.
template <class T>
__global__ void __launch_bounds__(256)
    join_gradients(T* to, const float* parts, Sizes sizes, kernels::HeadStrides strides, int width) {
  begin_kernel();
  const std::int64_t all = std::int64_t{sizes.heads / sizes.sharing} * sizes.keys * width;
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= all) return;
  float sum = 0;
#pragma unroll 8
  for (int part = 0; part < sizes.parts; ++part) sum += parts[part * all + at];
  const std::int64_t row = at / width;
  const int head = static_cast<int>(row / sizes.keys) * sizes.sharing;
  put(sizes.of_head(to, strides, head)[row % sizes.keys * strides.row + at % width], sum);
}

/// Runs `kernel` with blocks of `rows` rows, whose parts are joined.
template <class T>
void launch_backward(Context& context, Backward<T> pass, Sizes sizes, int rows, int step, unsigned threads,
                     std::size_t bytes, void (*kernel)(Backward<T>, Sizes, int)) {
  const bool of_keys = pass.grad_key != nullptr || pass.grad_value != nullptr;
  const int key_heads = sizes.heads / sizes.sharing;
  const std::int64_t key_blocks = of_keys ? key_heads * ceil_div(sizes.keys, rows) : 0;
  const std::int64_t blocks = pass.grad_query != nullptr ? sizes.heads * ceil_div(sizes.queries, rows) : 0;
  // Few blocks with many steps leave multiprocessors idle.
  const std::int64_t steps = sizes.sharing * ceil_div(sizes.queries, step), idle = card().multiprocessors - blocks;
  if (key_blocks > 0 && steps >= 8)
    sizes.parts =
        static_cast<int>(std::clamp<std::int64_t>(idle / key_blocks, 1, std::min<std::int64_t>(steps / 4, 16)));
  const auto elements = [&](const T* gradient, int width) {
    return gradient == nullptr || sizes.parts == 1 ? 0 : std::int64_t{key_heads} * sizes.keys * width;
  };
  const std::int64_t of_key = elements(pass.grad_key, sizes.width), of_value = elements(pass.grad_value, sizes.values);
  const Scratch parts(context, static_cast<std::size_t>((of_key + of_value) * sizes.parts) * sizeof(float));
  pass.key_parts = parts.as<float>(), pass.value_parts = pass.key_parts + of_key * sizes.parts;
  launch(context, Grid(static_cast<unsigned>(key_blocks * sizes.parts + blocks), threads, bytes), kernel, pass, sizes,
         static_cast<int>(key_blocks * sizes.parts));
  const auto join = [&](T* to, const float* from, std::int64_t count, const kernels::HeadStrides& strides, int width) {
    launch(context, Grid(static_cast<unsigned>(ceil_div(count, 256)), 256), join_gradients<T>, to, from, sizes, strides,
           width);
  };
  join(pass.grad_key, pass.key_parts, of_key, sizes.grad_key, sizes.width);
  join(pass.grad_value, pass.value_parts, of_value, sizes.grad_value, sizes.values);
}

template <class Tile, int Width, int Step, int Warps, int Stages, int Resident>
struct BackwardLaunch : BackwardShape<Tile, Width, Step, Warps, Stages> {
  using Base = BackwardShape<Tile, Width, Step, Warps, Stages>;

  static void run(Context& context, const Backward<typename Tile::Element>& pass, const Sizes& sizes) {
    launch_backward(context, pass, sizes, Base::rows, Step, Base::threads, Base::bytes,
                    backward_kernel<Tile, Width, Step, Warps, Stages, Resident>);
  }
};

}  // namespace tern::cuda::scaled_dot_product
