#pragma once
// The forward pass of attention: a block owns some rows of queries and loops over blocks of keys, keeping each row's
// largest score and sum so far (Milakov and Gimelshein, 2018; Dao and others, 2022). No scores are stored.

#include "cuda/attention/forward_rows.cuh"
#include "cuda/attention/half_tiles.cuh"
#include "tern/core/dtype.hpp"

namespace tern::cuda::scaled_dot_product {

template <class Tile, int Width, int Keys, int Warps, int Stages>
constexpr std::size_t forward_bytes() {
  constexpr int rows = Warps * Tile::warp_rows;
  using Element = typename Tile::Element;
  return sizeof(Element) * ((rows + 2 * Stages * Keys) * pitch<Width, Element>)+sizeof(float) * rows *
         Tile::template stage_pitch<Keys>;
}

/// With one stage, keys and values are copied while the others are used; with two, the next of both.
template <class Tile, int Width, int Keys, int Warps, int Resident, int Stages>
__global__ void __launch_bounds__(32 * Warps, Resident)
    forward_kernel(Forward<typename Tile::Element> pass, Sizes sizes, float shift, RowParts partial) {
  begin_kernel();
  using Element = typename Tile::Element;
  constexpr int distance = pitch<Width, Element>;
  extern __shared__ __align__(16) float shared[];
  constexpr int rows = Warps * Tile::warp_rows, threads = 32 * Warps;
  auto* const queries = reinterpret_cast<Element*>(shared);
  Element *const all_keys = queries + rows * distance, *const all_values = all_keys + Stages * Keys * distance;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float* const stage = reinterpret_cast<float*>(all_values + Stages * Keys * distance) +
                       warp * Tile::warp_rows * Tile::template stage_pitch<Keys>;
  const ForwardPlace<rows, Keys> place(sizes, partial.count);
  const int head = place.head, own = place.first + warp * Tile::warp_rows;
  const Element *const query = sizes.of_head(pass.query, sizes.query, head),
                       *const key = sizes.of_head(pass.key, sizes.key, head),
                       *const value = sizes.of_head(pass.value, sizes.value, head);

  copy_tile<rows, Width, threads>(queries, query, place.first, sizes.queries, sizes.width, sizes.query.row,
                                  sizes.packs);
  const auto copy_keys = [&](int from) {
    copy_tile<Keys, Width, threads>(all_keys + from / Keys % Stages * Keys * distance, key, from, sizes.keys,
                                    sizes.width, sizes.key.row, sizes.packs);
  };
  const auto copy_values = [&](int from) {
    copy_tile<Keys, Width, threads>(all_values + from / Keys % Stages * Keys * distance, value, from, sizes.keys,
                                    sizes.values, sizes.value.row, sizes.packs);
  };
  copy_keys(place.begin);
  if constexpr (Stages == 1) commit_copies();
  copy_values(place.begin);
  commit_copies();
  await_copies<Stages == 1 ? 1 : 0>();
  __syncthreads();
  prepare_tile<Tile, rows, Width, threads>(queries);

  typename Tile::template Sums<Width> sums;
  RowsSoFar<Tile, Keys> so_far;
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
    for (int j = 0; j < sums.columns; ++j) sums.value(i, j) = 0;
#pragma unroll 1
  for (int begin = place.begin; begin < place.end; begin += Keys) {
    await_copies<Stages == 1 ? 1 : 0>();
    __syncthreads();
    const bool more = begin + Keys < place.end;
    if constexpr (Stages > 1) {
      if (more) copy_keys(begin + Keys), copy_values(begin + Keys);
      commit_copies();
    }
    const int buffer = begin / Keys % Stages * Keys * distance;
    const Element *const keys = all_keys + buffer, *const values = all_values + buffer;
    const bool sees = !sizes.causal || begin < own + Tile::warp_rows;  // the same for all lanes
    typename Tile::template Sums<Keys> weights;
    if (sees) Tile::template scores<Keys, Width>(weights, queries + warp * Tile::warp_rows * distance, keys);
    if constexpr (Stages == 1) {
      __syncthreads();
      if (more) copy_keys(begin + Keys);
      commit_copies();
    }
    if (sees) {
      scale_scores<Tile>(weights, sizes.scale);
      so_far.hide(weights, sizes, begin, own);
      float factor[Tile::rows];
      so_far.weigh(weights, factor, log2_e, shift);
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
        for (int j = 0; j < sums.columns; ++j) sums.value(i, j) *= factor[i];
      Tile::template stage<Keys>(stage, weights);
    }
    if constexpr (Stages == 1) {
      await_copies<1>();
      __syncthreads();
    }
    if (sees) Tile::template add<Keys, Width>(sums, weights, stage, values);
    if constexpr (Stages == 1) {
      __syncthreads();
      if (more) copy_values(begin + Keys);
      commit_copies();
    }
  }
  write_results<Tile, Width>(pass, sizes, partial, shift, head, place.part, own, so_far.top, so_far.total, sums);
}

template <class Tile, int Width, int Keys, int Warps, int Resident, int Stages = 1>
struct ForwardShape {
  using Element = typename Tile::Element;
  static constexpr int rows = Warps * Tile::warp_rows;
  static constexpr std::size_t bytes = forward_bytes<Tile, Width, Keys, Warps, Stages>();

  static void run(Context& context, const Forward<Element>& pass, const Sizes& sizes) {
    const float shift = weight_shift<Element>(sizes);
    const std::int64_t blocks = sizes.heads * ceil_div(sizes.queries, rows);
    const ForwardParts<Element> parts(context, sizes, forward_parts<Element>(sizes, blocks, Resident));
    launch(context, Grid(static_cast<unsigned>(blocks * parts.parts().count), 32 * Warps, bytes),
           forward_kernel<Tile, Width, Keys, Warps, Resident, Stages>, pass, sizes, shift, parts.parts());
    parts.join(context, pass, sizes, shift);
  }
};

}  // namespace tern::cuda::scaled_dot_product
