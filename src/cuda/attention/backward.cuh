#pragma once
// The gradients of attention. The weights are recomputed from the rows' log-sum-exp. Some blocks own rows of keys and
// loop over the queries, for the gradients of keys and values; the others own rows of queries and loop over the keys.
// Every sum has one block and one order.

#include "cuda/attention/half_tiles.cuh"
#include "cuda/attention/parts.cuh"

namespace tern::cuda::scaled_dot_product {

template <class Tile, int Width, int Step, int Warps, int Stages>
struct BackwardShape {
  static constexpr int rows = Warps * Tile::warp_rows, threads = 32 * Warps;
  using Element = typename Tile::Element;
  static constexpr int own = rows * pitch<Width, Element>, other = Step * pitch<Width, Element>;
  static constexpr std::size_t bytes = sizeof(Element) * (2 * own + 2 * Stages * other) +
                                       sizeof(float) * (rows * Tile::template stage_pitch<Step> + 2 * Stages * Step);
};

/// Where gradients go, or the sums [parts, heads, rows, width] of their parts.
template <class T>
struct Gradient {
  T* to;
  float* parts;
  kernels::HeadStrides strides;
};
template <class T>
__device__ __forceinline__ Gradient<T> of_query(const Backward<T>& pass, const Sizes& sizes) {
  return {pass.grad_query, pass.query_parts, sizes.grad_query};
}
template <class T>
__device__ __forceinline__ Gradient<T> of_key(const Backward<T>& pass, const Sizes& sizes) {
  return {pass.grad_key, pass.key_parts, sizes.grad_key};
}
template <class T>
__device__ __forceinline__ Gradient<T> of_value(const Backward<T>& pass, const Sizes& sizes) {
  return {pass.grad_value, pass.value_parts, sizes.grad_value};
}

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

/// The rows that a block owns, of the keys (OfKeys) or of the queries of a head, and the steps that it takes through
/// the others. Some blocks may share these steps: each has a part of them.
template <bool OfKeys, class T, int Rows, int Step>
struct Walk {
  const Backward<T>& pass;
  const Sizes& sizes;
  int head, first, part, parts;
  int at, end;  ///< steps

  __device__ __forceinline__ Walk(const Backward<T>& of, const Sizes& with, int block) : pass(of), sizes(with) {
    const int tiles = (own_count() + Rows - 1) / Rows;
    parts = OfKeys ? sizes.key_parts : sizes.query_parts;
    part = block % parts, block /= parts;
    // With causality those with the most steps come first.
    const int tile = !sizes.causal ? block % tiles : OfKeys ? block / sizes.heads : tiles - 1 - block / sizes.heads;
    head = sizes.causal ? block % sizes.heads : block / tiles, first = tile * Rows;
    begin_ = sizes.causal && OfKeys ? first / Step * Step : 0;
    const int last = sizes.causal && !OfKeys ? min(count(), first + Rows) : count();
    const int steps = max(0, (last - begin_ + Step - 1) / Step);
    at = steps * part / parts, end = steps * (part + 1) / parts;
    scores_ = sizes.of_head(OfKeys ? pass.query : pass.key, OfKeys ? sizes.query : sizes.key, head);
    values_ = sizes.of_head(OfKeys ? pass.grad : pass.value, OfKeys ? sizes.grad : sizes.value, head);
  }
  __device__ __forceinline__ int own_count() const { return OfKeys ? sizes.keys : sizes.queries; }
  __device__ __forceinline__ int count() const { return OfKeys ? sizes.queries : sizes.keys; }
  __device__ __forceinline__ const float* numbers(const float* of) const {
    return of + static_cast<std::int64_t>(head) * sizes.queries;
  }

  /// The block's own rows, by copy(to, matrix, first row, rows there are, width, stride).
  template <class Copy>
  __device__ __forceinline__ void load_own(T* scores, T* values, const Copy& copy) const {
    copy(scores, sizes.of_head(OfKeys ? pass.key : pass.query, OfKeys ? sizes.key : sizes.query, head), first,
         own_count(), sizes.width, (OfKeys ? sizes.key : sizes.query).row);
    copy(values, sizes.of_head(OfKeys ? pass.value : pass.grad, OfKeys ? sizes.value : sizes.grad, head), first,
         own_count(), sizes.values, (OfKeys ? sizes.value : sizes.grad).row);
  }
  /// The first row of a step.
  __device__ __forceinline__ int row(int step) const { return begin_ + step * Step; }
  /// The rows of a step.
  template <class Copy>
  __device__ __forceinline__ void load(int step, T* scores, T* values, float* of_columns, const Copy& copy) const {
    copy(scores, scores_, row(step), count(), sizes.width, (OfKeys ? sizes.query : sizes.key).row);
    copy(values, values_, row(step), count(), sizes.values, (OfKeys ? sizes.grad : sizes.value).row);
    if constexpr (OfKeys)
      copy_columns<Step>(of_columns, numbers(pass.log_sum), numbers(pass.inner), row(step), count());
  }

  /// Writes a warp's sums times `factor` as gradients, or as those of a part.
  template <class Tile, int Width>
  __device__ __forceinline__ void write(const Gradient<T>& gradient, int width, int mine, float factor,
                                        typename Tile::template Sums<Width>& sums) const {
    if (gradient.to == nullptr) return;
    if (parts == 1)
      return write_rows<Tile, Width>(sizes.of_head(gradient.to, gradient.strides, head), sums, mine, own_count(), width,
                                     gradient.strides.row, sizes.packs, [&](int) { return factor; });
    write_part<Tile, Width>(gradient.parts + (std::int64_t{part} * sizes.heads + head) * own_count() * width, sums,
                            mine, own_count(), width, width, factor);
  }

 private:
  int begin_;                  // the first of the other rows
  const T *scores_, *values_;  // the others
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
    walk.load(step, to, to + Shape::other, of_columns + step % Stages * 2 * Step,
              [&](auto... of) { copy_tile<Step, Width, threads>(of..., sizes.packs); });
  };
  walk.load_own(own, own_value, [&](auto... of) { copy_tile<rows, Width, threads>(of..., sizes.packs); });
  if (walk.at < walk.end) load(walk.at);
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
      row_log[i] = row < sizes.queries ? walk.numbers(pass.log_sum)[row] : 0.0f;
      row_inner[i] = row < sizes.queries ? walk.numbers(pass.inner)[row] : 0.0f;
    }
  }
#pragma unroll 1
  for (int step = walk.at; step < walk.end; ++step) {
    const bool more = step + 1 < walk.end;
    if constexpr (Stages > 1) {
      if (more) load(step + 1);
      commit_copies();
    }
    await_copies<Stages - 1>();
    __syncthreads();
    const Element* const other = others + step % Stages * 2 * Shape::other;
    const Element* const other_value = other + Shape::other;
    const float* const columns = of_columns + step % Stages * 2 * Step;
    const Window<OfKeys, Tile, Step> window{mine, walk.row(step), walk.count(), sizes.causal};
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
      if (more) load(step + 1);
      commit_copies();
    }
  }
  walk.template write<Tile, Width>(OfKeys ? of_key(pass, sizes) : of_query(pass, sizes), sizes.width, mine, sizes.scale,
                                   sums);
  if constexpr (OfKeys) walk.template write<Tile, Width>(of_value(pass, sizes), sizes.values, mine, 1.0f, value_sums);
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

/// Elements of a row that a thread joins.
__host__ __device__ constexpr int joined_at_once(int width) { return width % 4 == 0 ? 4 : 1; }

/// The sums of the parts of a gradient in their order, `Count` elements of each thread.
template <int Count, class T>
__device__ __forceinline__ void join_gradient(const Gradient<T>& gradient, const Sizes& sizes, int parts, int rows,
                                              int width, std::int64_t at) {
  const std::int64_t all = std::int64_t{sizes.heads} * rows * width, row = at * Count / width;
  Pack<float, Count> sum{};
#pragma unroll 8
  for (int part = 0; part < parts; ++part) {
    const Pack<float, Count> more = load<Count>(gradient.parts + part * all + at * Count);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum.value[i] += more.value[i];
  }
  T* const to = sizes.of_head(gradient.to, gradient.strides, static_cast<int>(row / rows)) +
                row % rows * gradient.strides.row + at * Count % width;
#pragma unroll
  for (int i = 0; i < Count; ++i) put(to[i], sum.value[i]);
}

template <class T>
__global__ void __launch_bounds__(256) join_gradients(Backward<T> pass, Sizes sizes) {
  begin_kernel();
  std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const auto join = [&](const Gradient<T>& gradient, int parts, int rows, int width) {
    if (gradient.to == nullptr || parts == 1) return;
    const int count = joined_at_once(width);
    const std::int64_t threads = std::int64_t{sizes.heads} * rows * width / count;
    if (at >= 0 && at < threads)
      count == 4 ? join_gradient<4>(gradient, sizes, parts, rows, width, at)
                 : join_gradient<1>(gradient, sizes, parts, rows, width, at);
    at -= threads;
  };
  join(of_query(pass, sizes), sizes.query_parts, sizes.queries, sizes.width);
  join(of_key(pass, sizes), sizes.key_parts, sizes.keys, sizes.width);
  join(of_value(pass, sizes), sizes.key_parts, sizes.keys, sizes.values);
}

/// Runs start(grid, pass, sizes, blocks of keys) for blocks of keys, then of queries, and joins the parts of `sizes`.
template <class T, class Start>
void launch_with_parts(Context& context, Backward<T> pass, const Sizes& sizes, std::int64_t key_blocks,
                       std::int64_t query_blocks, unsigned threads, std::size_t bytes, const Start& start) {
  std::int64_t joins = 0, elements = 0;
  const auto count = [&](const T* gradient, int parts, std::int64_t rows, int width) {
    const std::int64_t of_part = sizes.heads * rows * width, from = ceil_div(elements, 4) * 4;
    if (gradient == nullptr || parts == 1) return from;
    joins += of_part / joined_at_once(width), elements = from + of_part * parts;
    return from;
  };
  const std::int64_t of_queries = count(pass.grad_query, sizes.query_parts, sizes.queries, sizes.width);
  const std::int64_t of_keys = count(pass.grad_key, sizes.key_parts, sizes.keys, sizes.width);
  const std::int64_t of_values = count(pass.grad_value, sizes.key_parts, sizes.keys, sizes.values);
  const Scratch parts(context, static_cast<std::size_t>(elements) * sizeof(float));
  auto* const first = parts.as<float>();
  pass.query_parts = first + of_queries, pass.key_parts = first + of_keys, pass.value_parts = first + of_values;
  start(Grid(static_cast<unsigned>(key_blocks + query_blocks), threads, bytes), pass, sizes,
        static_cast<int>(key_blocks));
  launch(context, Grid(static_cast<unsigned>(ceil_div(joins, 256)), 256), join_gradients<T>, pass, sizes);
}

/// As launch_with_parts, with blocks of `rows` rows, of which a multiprocessor runs `resident` at once.
template <class T, class Start>
void launch_backward(Context& context, const Backward<T>& pass, Sizes sizes, int rows, int resident, unsigned threads,
                     std::size_t bytes, const Start& start) {
  const bool keys = pass.grad_key != nullptr || pass.grad_value != nullptr, queries = pass.grad_query != nullptr;
  const std::int64_t key_blocks = keys ? sizes.heads * ceil_div(sizes.keys, rows) : 0;
  const std::int64_t query_blocks = queries ? sizes.heads * ceil_div(sizes.queries, rows) : 0;
  constexpr int of_key = 4, of_query = 3;  // products
  const std::int64_t all = key_blocks * sizes.queries * of_key + query_blocks * sizes.keys * of_query;
  const std::int64_t share = share_of(sizes, all, resident);
  sizes.key_parts = parts_for<T>(sizes.queries, of_key, share);
  sizes.query_parts = parts_for<T>(sizes.keys, of_query, share);
  launch_with_parts(context, pass, sizes, key_blocks * sizes.key_parts, query_blocks * sizes.query_parts, threads,
                    bytes, start);
}

template <class Tile, int Width, int Step, int Warps, int Stages, int Resident>
struct BackwardLaunch : BackwardShape<Tile, Width, Step, Warps, Stages> {
  using Base = BackwardShape<Tile, Width, Step, Warps, Stages>;

  static void run(Context& context, const Backward<typename Tile::Element>& pass, const Sizes& sizes) {
    launch_backward(context, pass, sizes, Base::rows, Resident, Base::threads, Base::bytes,
                    [&](const Grid& grid, const auto&... of) {
                      launch(context, grid, backward_kernel<Tile, Width, Step, Warps, Stages, Resident>, of...);
                    });
  }
};

}  // namespace tern::cuda::scaled_dot_product
