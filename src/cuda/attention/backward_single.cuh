#pragma once
// The gradients of attention with few keys by warpgroups, from one computation of the weights: a block owns the keys of
// a head and loops over the queries. Gradients of scores pass through shared memory, so that one warpgroup multiplies
// those of all keys while the others begin the next step.

#include "cuda/attention/backward_groups.cuh"

namespace tern::cuda::scaled_dot_product {

/// Each of `Groups` warpgroups owns 64 * Tiles keys.
template <class T, int Width, int Tiles, int Groups>
struct SingleShape {
  static constexpr int width = Width, tiles = Tiles, groups = Groups;
  static constexpr int step = 64, rows = 64 * Tiles * Groups, threads = 128 * Groups, own = rows * Width;
  static constexpr int other = step * Width, resident = Groups == 1 ? 2 : 1;
  static constexpr std::size_t bytes =
      sizeof(T) * (2 * own + 4 * other + 2 * rows * step) + sizeof(float) * 4 * static_cast<std::size_t>(step);
};

/// Factors of 16 rows of a warp, from `row` on, to a matrix [Rows, 64].
template <int Rows, class T, class Factors>
__device__ __forceinline__ void store_factors(T* to, const Factors& factors, int row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int column = 16 * k + part / 2 * 8 + lane % 4 * 2;
      T* const at = to + Swizzled<64>::place<Rows>(row + lane / 4 + part % 2 * 8, column) + column % 8;
      *reinterpret_cast<std::uint32_t*>(at) = factors.word[k][part];
    }
}

/// The gradients of 64 queries from the first `rows` keys of a block: grads [Rows, 64], keys [Rows, Width].
template <int Rows, int Width, class T>
__device__ __forceinline__ void add_queries(typename GroupTile<T>::template Sums<Width>& sums, const T* grads,
                                            const T* keys) {
  using Layout = Swizzled<Width>;
  const std::uint64_t from_a = Swizzled<64>::along_columns<Rows> | address_bits(grads);
  const std::uint64_t from_b = Layout::template along_columns<Rows> | address_bits(keys);
  begin_products();
#pragma unroll
  for (int k = 0; k < Rows / 16; ++k)
    group_scores<T, Width, true>(sums.sum[0], from_a + k * (16 * 64 * 2 >> 4),
                                 from_b + k * (16 * Layout::columns * 2 >> 4), k > 0);
  commit_products();
  await_products<0>();
  hold(sums.sum[0]);
}

/// What a warpgroup adds for 64 of its keys, and their gradients of scores.
template <class T, int Width, int Rows>
struct SingleTile {
  using Tile = GroupTile<T>;
  typename Tile::template Sums<Width> sums, value_sums;

  __device__ __forceinline__ void add(const T* own, const T* own_value, const T* other, const T* other_value,
                                      const Sizes& sizes, const GroupWindow<true, Tile, 64>& window,
                                      const float* columns, T* scores, int row) {
    typename Tile::template Sums<64> weights, grads;
    typename Tile::template Factors<64> factors;
    begin_products();
    Tile::template start_scores<64, Width, Rows>(weights, own, other);
    Tile::template start_scores<64, Width, Rows>(grads, own_value, other_value);
    await_products<1>();
    hold(weights.sum[0]);
    window.weigh(weights, nullptr, columns);
    factors.round(weights);
    begin_products();
    Tile::template start_add<64, Width>(value_sums, factors, other_value);
    await_products<1>();
    hold(grads.sum[0]);
    window.pass(grads, weights, nullptr, columns + 64);
    if (window.mine + 16 > sizes.keys) {  // rows beyond the last key have weights
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 16; ++j)
          if (window.mine + Tile::row(i) >= sizes.keys) grads.at(i, j) = 0;
    }
    await_products<0>();  // the factors' registers are free
    hold(value_sums.sum[0]);
    factors.round(grads);
    store_factors<Rows>(scores, factors, row);
    begin_products();
    Tile::template start_add<64, Width>(sums, factors, other);
    await_products<0>();
    hold(sums.sum[0]);
  }
};

template <class T, int Width, int Tiles, int Groups>
__global__ void __launch_bounds__(128 * Groups, SingleShape<T, Width, Tiles, Groups>::resident)
    backward_single(Backward<T> pass, Sizes sizes, int) {
  begin_kernel();
  using Tile = GroupTile<T>;
  using Shape = SingleShape<T, Width, Tiles, Groups>;
  constexpr int rows = Shape::rows, threads = Shape::threads, panel = Swizzled<Width>::columns, step_rows = Shape::step;
  extern __shared__ __align__(1024) unsigned char raw[];
  const Walk<true, T, rows, step_rows> walk(pass, sizes, static_cast<int>(blockIdx.x));
  T* const own = reinterpret_cast<T*>(raw);
  T *const own_value = own + Shape::own, *const others = own_value + Shape::own;
  T* const all_scores = others + 4 * Shape::other;  // gradients of scores
  auto* const of_columns = reinterpret_cast<float*>(all_scores + 2 * rows * step_rows);
  const int warp = warp_of_block(), group = warp / 4;
  const auto load = [&](int step) {
    T* const to = others + step % 2 * 2 * Shape::other;
    walk.load(step, to, to + Shape::other, of_columns + step % 2 * 2 * step_rows,
              [&](auto... of) { copy_swizzled<step_rows, Width, threads>(of..., sizes.packs); });
  };
  walk.load_own(own, own_value, [&](auto... of) { copy_swizzled<rows, Width, threads>(of..., sizes.packs); });
  if (walk.at < walk.end) load(walk.at);
  commit_copies();
  await_copies<0>();
  publish_to_groups();
  __syncthreads();

  SingleTile<T, Width, rows> tiles[Tiles];
#pragma unroll
  for (int t = 0; t < Tiles; ++t) tiles[t].sums.clear(), tiles[t].value_sums.clear();
#pragma unroll 1
  for (int step = walk.at; step < walk.end; ++step) {
    if (step + 1 < walk.end) load(step + 1);
    commit_copies();
    const T* const other = others + step % 2 * 2 * Shape::other;
    T* const scores = all_scores + step % 2 * rows * step_rows;
#pragma unroll
    for (int t = 0; t < Tiles; ++t) {
      const int first = (group * Tiles + t) * 64, row = first + warp % 4 * 16;
      if (sizes.causal && first >= walk.row(step) + step_rows) {  // no query sees any key
        store_factors<rows>(scores, typename Tile::template Factors<64>{}, row);
        continue;
      }
      const GroupWindow<true, Tile, step_rows> window{row, walk.row(step), sizes.queries, sizes.causal, sizes.scale};
      tiles[t].add(own + first * panel, own_value + first * panel, other, other + Shape::other, sizes, window,
                   of_columns + step % 2 * 2 * step_rows, scores, row);
    }
    await_copies<0>();
    publish_to_groups();
    __syncthreads();
    if (step % Groups != group) continue;  // the others begin the next step
    typename Tile::template Sums<Width> sums;
    add_queries<rows, Width>(sums, scores, own);
    const int mine = walk.row(step) + warp % 4 * 16;
    write_rows<Tile, Width>(sizes.of_head(pass.grad_query, sizes.grad_query, walk.head), sums, mine, sizes.queries,
                            sizes.width, sizes.grad_query.row, sizes.packs, [&](int) { return sizes.scale; });
  }
#pragma unroll
  for (int t = 0; t < Tiles; ++t) {
    const int mine = (group * Tiles + t) * 64 + warp % 4 * 16;
    walk.template write<Tile, Width>(of_key(pass, sizes), sizes.width, mine, sizes.scale, tiles[t].sums);
    walk.template write<Tile, Width>(of_value(pass, sizes), sizes.values, mine, 1.0f, tiles[t].value_sums);
  }
}

}  // namespace tern::cuda::scaled_dot_product
