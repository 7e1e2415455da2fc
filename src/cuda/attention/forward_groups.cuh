#pragma once
// The forward pass by warpgroups for few rows or keys, and for rows that the copy engine cannot bring: threads copy
// them. While tensor cores add the weighted values of some keys, threads make the weights of the next ones.

#include "cuda/attention/forward_rows.cuh"
#include "cuda/attention/group_tiles.cuh"

namespace tern::cuda::scaled_dot_product {

template <class T, int Width, int Keys, int Groups, int Resident>
__global__ void __launch_bounds__(128 * Groups, Resident)
    forward_groups(Forward<T> pass, Sizes sizes, float shift, RowParts partial) {
  begin_kernel();
  using Tile = GroupTile<T>;
  constexpr int rows = 64 * Groups, threads = 128 * Groups;
  extern __shared__ __align__(1024) unsigned char raw[];
  T* const queries = reinterpret_cast<T*>(raw);
  T *const all_keys = queries + rows * Width, *const all_values = all_keys + 2 * Keys * Width;
  const ForwardPlace<rows, Keys> place(sizes, partial.count);
  const int warp = static_cast<int>(threadIdx.x) / 32, group = warp / 4, own = place.first + warp * 16;
  const T *const query = sizes.of_head(pass.query, sizes.query, place.head),
                 *const key = sizes.of_head(pass.key, sizes.key, place.head),
                 *const value = sizes.of_head(pass.value, sizes.value, place.head);
  const auto copy_keys = [&](int from) {
    copy_swizzled<Keys, Width, threads>(all_keys + from / Keys % 2 * Keys * Width, key, from, sizes.keys, sizes.width,
                                        sizes.key.row, sizes.packs);
  };
  const auto copy_values = [&](int from) {
    copy_swizzled<Keys, Width, threads>(all_values + from / Keys % 2 * Keys * Width, value, from, sizes.keys,
                                        sizes.values, sizes.value.row, sizes.packs);
  };
  copy_swizzled<rows, Width, threads>(queries, query, place.first, sizes.queries, sizes.width, sizes.query.row,
                                      sizes.packs);
  copy_keys(place.begin);
  commit_copies();
  copy_values(place.begin);
  if (place.begin + Keys < place.end) copy_keys(place.begin + Keys);
  commit_copies();

  typename Tile::template Sums<Width> sums;
  RowsSoFar<Tile, Keys> so_far;
  sums.clear();
  typename Tile::template Factors<Keys> weights;
  // Scores lose their maximum before they are scaled, where the scale keeps their order.
  const bool scales_first = !(sizes.scale > 0);
  const float left = scales_first ? 1.0f : sizes.scale, scale = left * log2_e;
#pragma unroll 1
  for (int begin = place.begin;; begin += Keys) {
    begin == place.begin ? await_copies<1>() : await_copies<0>();
    publish_to_groups();
    __syncthreads();
    if (begin > place.begin) {
      if (begin + Keys < place.end) copy_keys(begin + Keys);
      if (begin < place.end) copy_values(begin);
      commit_copies();
    }
    if (begin >= place.end) {
      if (begin == place.begin) break;  // no keys
      begin_products();
      Tile::template start_add<Keys, Width>(sums, weights, all_values + (begin / Keys - 1) % 2 * Keys * Width);
      await_products<0>();
      hold(sums.sum[0]);
      break;
    }
    typename Tile::template Sums<Keys> scores;
    begin_products();
    Tile::template start_scores<Keys, Width, rows>(scores, queries + group * 64 * Swizzled<Width>::columns,
                                                   all_keys + begin / Keys % 2 * Keys * Width);
    if (begin > place.begin) {
      Tile::template start_add<Keys, Width>(sums, weights, all_values + (begin / Keys - 1) % 2 * Keys * Width);
      await_products<1>();
    } else {
      await_products<0>();
    }
    hold(scores.sum[0]);
    if (scales_first) scale_scores<Tile>(scores, sizes.scale);
    so_far.hide(scores, sizes, begin, own);
    float factor[2];
    so_far.weigh(scores, factor, scale, shift);
    await_products<0>();
    hold(sums.sum[0]);
#pragma unroll
    for (int j = 0; j < Width / 8; ++j)
#pragma unroll
      for (int part = 0; part < 4; ++part) sums.sum[0][j][part] *= factor[part / 2];
    weights.round(scores);
  }
  const float top[2] = {__fmul_rn(so_far.top[0], left), __fmul_rn(so_far.top[1], left)};
  write_results<Tile, Width>(pass, sizes, partial, shift, place.head, place.part, own, top, so_far.total, sums);
}

template <class T, int Width, int Keys, int Groups, int Resident>
struct GroupForward {
  static constexpr int rows = 64 * Groups;
  static constexpr std::size_t bytes = sizeof(T) * (rows + 4 * Keys) * Width;

  static void run(Context& context, const Forward<T>& pass, const Sizes& sizes) {
    const float shift = weight_shift<T>(sizes);
    const std::int64_t blocks = sizes.heads * ceil_div(sizes.queries, rows);
    const ForwardParts<T> parts(context, sizes, forward_parts<T>(sizes, blocks, Resident));
    launch(context, Grid(static_cast<unsigned>(blocks * parts.parts().count), 128 * Groups, bytes),
           forward_groups<T, Width, Keys, Groups, Resident>, pass, sizes, shift, parts.parts());
    parts.join(context, pass, sizes, shift);
  }
};

}  // namespace tern::cuda::scaled_dot_product
