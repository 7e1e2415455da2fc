#pragma once
// The gradients of attention by warpgroups, as in backward.cuh.

#include "cuda/attention/backward.cuh"
#include "cuda/attention/group_tiles.cuh"

namespace tern::cuda::scaled_dot_product {

template <class T, int Width, int Step, int Groups>
struct GroupBackwardShape {
  static constexpr int rows = 64 * Groups, threads = 128 * Groups, own = rows * Width, other = Step * Width;
  static constexpr std::size_t bytes = sizeof(T) * (2 * own + 4 * other) + sizeof(float) * 4 * Step;
};

template <bool OfKeys, class T, int Width, int Step, int Groups>
__device__ __forceinline__ void differentiate_groups(const Backward<T>& pass, const Sizes& sizes, int block,
                                                     unsigned char* raw) {
  using Tile = GroupTile<T>;
  using Shape = GroupBackwardShape<T, Width, Step, Groups>;
  constexpr int rows = Shape::rows, threads = Shape::threads, panel = Swizzled<Width>::columns;
  Walk<OfKeys, T, rows, Step> walk(pass, sizes, block);
  T* const own = reinterpret_cast<T*>(raw);
  T *const own_value = own + Shape::own, *const others = own_value + Shape::own;
  auto* const of_columns = reinterpret_cast<float*>(others + 4 * Shape::other);
  const int warp = static_cast<int>(threadIdx.x) / 32, group = warp / 4, mine = walk.first + warp * 16;
  const auto load = [&](int step) {
    T* const to = others + step % 2 * 2 * Shape::other;
    walk.load(step, to, to + Shape::other, of_columns + step % 2 * 2 * Step,
              [&](auto... of) { copy_swizzled<Step, Width, threads>(of..., sizes.packs); });
  };
  walk.load_own(own, own_value, [&](auto... of) { copy_swizzled<rows, Width, threads>(of..., sizes.packs); });
  if (walk.at < walk.end) load(walk.at);
  commit_copies();
  if (walk.at + 1 < walk.end) load(walk.at + 1);
  commit_copies();

  typename Tile::template Sums<Width> sums, value_sums;
  sums.clear(), value_sums.clear();
  float row_log[OfKeys ? 1 : 2], row_inner[OfKeys ? 1 : 2];
  if constexpr (!OfKeys) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = mine + Tile::row(i);
      row_log[i] = row < sizes.queries ? walk.numbers(pass.log_sum)[row] : 0.0f;
      row_inner[i] = row < sizes.queries ? walk.numbers(pass.inner)[row] : 0.0f;
    }
  }
#pragma unroll 1
  for (int step = walk.at; step < walk.end; ++step) {
    step == walk.at ? await_copies<1>() : await_copies<0>();
    publish_to_groups();
    __syncthreads();
    if (step > walk.at && step + 1 < walk.end) load(step + 1);
    commit_copies();
    const T* const other = others + step % 2 * 2 * Shape::other;
    const T* const other_value = other + Shape::other;
    const float* const columns = of_columns + step % 2 * 2 * Step;
    const int ahead = walk.first + group * 64 - walk.row(step);
    if (sizes.causal && (OfKeys ? ahead >= Step : ahead <= -64)) continue;  // no query sees any key
    const Window<OfKeys, Tile, Step> window{mine, walk.row(step), walk.count(), sizes.causal};
    typename Tile::template Sums<Step> weights, grads;
    typename Tile::template Factors<Step> factors;
    begin_products();
    Tile::template start_scores<Step, Width, rows>(weights, own + group * 64 * panel, other);
    Tile::template start_scores<Step, Width, rows>(grads, own_value + group * 64 * panel, other_value);
    await_products<1>();
    hold(weights.sum[0]);
    scale_scores<Tile>(weights, sizes.scale);
    window.weigh(weights, row_log, columns);
    if constexpr (OfKeys) {
      factors.round(weights);
      begin_products();
      Tile::template start_add<Step, Width>(value_sums, factors, other_value);
      await_products<1>();
    } else {
      await_products<0>();
    }
    hold(grads.sum[0]);
    window.pass(grads, weights, nullptr, row_inner, columns + Step);
    if constexpr (OfKeys) {  // the factors' registers are free
      await_products<0>();
      hold(value_sums.sum[0]);
    }
    factors.round(grads);
    begin_products();
    Tile::template start_add<Step, Width>(sums, factors, other);
    await_products<0>();
    hold(sums.sum[0]);
  }
  walk.template write<Tile, Width>(OfKeys ? of_key(pass, sizes) : of_query(pass, sizes), sizes.width, mine, sizes.scale,
                                   sums);
  if constexpr (OfKeys) walk.template write<Tile, Width>(of_value(pass, sizes), sizes.values, mine, 1.0f, value_sums);
}

/// As backward_kernel.
template <class T, int Width, int Step, int Groups, int Resident>
__global__ void __launch_bounds__(128 * Groups, Resident)
    backward_groups(Backward<T> pass, Sizes sizes, int key_blocks) {
  begin_kernel();
  extern __shared__ __align__(1024) unsigned char raw[];
  const int block = static_cast<int>(blockIdx.x);
  if (block < key_blocks)
    differentiate_groups<true, T, Width, Step, Groups>(pass, sizes, block, raw);
  else
    differentiate_groups<false, T, Width, Step, Groups>(pass, sizes, block - key_blocks, raw);
}

template <class T, int Width, int Step, int Groups, int Resident>
struct GroupBackward {
  using Shape = GroupBackwardShape<T, Width, Step, Groups>;

  static void run(Context& context, const Backward<T>& pass, const Sizes& sizes) {
    launch_backward(context, pass, sizes, Shape::rows, Resident, Shape::threads, Shape::bytes,
                    backward_groups<T, Width, Step, Groups, Resident>);
  }
};

}  // namespace tern::cuda::scaled_dot_product
