#pragma once
// One kernel for a whole sequence of a layer whose weights fit into the registers of one block or one cluster: after
// each round, a block writes its part of the state into the shared memory of the others.

#include <cooperative_groups.h>

#include "cuda/recurrent/warp_product.cuh"
#include "cuda/recurrent/work.cuh"

namespace tern::cuda::recurrence {

/// Waits for the other threads of the block and, if there are several, of the cluster's blocks.
__device__ __forceinline__ void meet_cluster(int spread) {
#if __CUDA_ARCH__ >= 900
  if (spread > 1) return cooperative_groups::this_cluster().sync();
#endif
  __syncthreads();
}

/// Writes what an item made to the same place in every block's shared memory.
template <int places, int made>
__device__ __forceinline__ void send(float* to, const Made<made>& item, int spread) {
  const auto put = [&](float* place) {
    if constexpr (places == 1)
      *place = item.values[0];
    else
      *reinterpret_cast<float4*>(place) = {item.values[0], item.values[1], item.values[2],
                                           made > 3 ? item.values[made - 1] : 0};
  };
#if __CUDA_ARCH__ >= 900
  if (spread > 1) {
    for (int rank = 0; rank < spread; ++rank)
      put(cooperative_groups::this_cluster().map_shared_rank(to, static_cast<unsigned>(rank)));
    return;
  }
#endif
  put(to);
}

/// The states are unit by unit, places_of(Work::made) numbers of each; there are two copies, since one block may still
/// read a round's while another sends the next.
template <class Product, class Work>
__global__ void __launch_bounds__(ClusterPlan::threads, 1)
    one_cluster_kernel(Work work, ClusterPlan plan, std::int64_t rounds) {
  extern __shared__ float4 cluster_shared[];
  constexpr int places = places_of(Work::made);
  float* const states = reinterpret_cast<float*>(cluster_shared);
  float* const partials = states + 2 * plan.tile * plan.stride;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const int rank = static_cast<int>(blockIdx.x) % plan.spread, cluster = static_cast<int>(blockIdx.x) / plan.spread;
  const int first_unit = rank * plan.units, width = static_cast<int>(work.p.width);
  begin_kernel();

  const int first_row = warp % plan.row_warps * Product::rows, chunk = warp / plan.row_warps;
  const int first_column = chunk * Product::tile.columns;
  const bool multiplies = chunk < plan.chunks;
  Product product;
  product.load([&](int row, int column) {
    const int unit = (first_row + row) / Work::sums, u = first_unit + unit, k = first_column + column;
    const int made = k % places, from = k / places;
    const bool inside = multiplies && unit < plan.units && u < width && from < width && made < Work::made;
    return inside ? work.factor((first_row + row) % Work::sums, u, made * width + from) : 0.0f;
  });
  for (int i = thread; i < 2 * plan.tile * plan.stride; i += ClusterPlan::threads) states[i] = 0;

  const int item_row = thread / plan.units, item_unit = thread % plan.units;
  const std::int64_t unit = first_unit + item_unit, batch = work.p.batch;
  float* const partial[1] = {partials + chunk * plan.tile * plan.pitch + first_row};
  float* const own = states + item_row * plan.stride + unit * places;
  for (std::int64_t first = cluster * plan.tile; first < batch; first += plan.clusters * plan.tile) {
    const int count = static_cast<int>(min(batch - first, static_cast<std::int64_t>(plan.tile)));
    const bool has_item = item_row < count && unit < width;
    const std::int64_t n = first + item_row;
    __syncthreads();
    if (const float* const source = work.first_source(); source != nullptr)  // one number of a unit
      for (int i = thread; i < count * width; i += ClusterPlan::threads)
        states[i / width * plan.stride + i % width] = source[first * width + i];
    typename Work::Item item{};
    float carry = 0;
    if (has_item) {
      item = work.load(0, n, unit);
      carry = work.carried(0, n, unit);
    }
    meet_cluster(plan.spread);
    for (std::int64_t round = 0; round < rounds; ++round) {
      typename Work::Item next{};
      if (has_item && round + 1 < rounds) next = work.load(round + 1, n, unit);
      float sums[Work::sums] = {};
      const int copy = static_cast<int>(round % 2) * plan.tile * plan.stride;
      if (work.source(round) != nullptr) {
        if (multiplies) product.multiply(states + copy + first_column, plan.stride, count, partial, 0, plan.pitch);
        __syncthreads();
        if (has_item)
          for (int s = 0; s < Work::sums; ++s)
            for (int c = 0; c < plan.chunks; ++c)
              sums[s] += partials[(c * plan.tile + item_row) * plan.pitch + item_unit * Work::sums + s];
      }
      if (has_item) {
        const Made<Work::made> made = work.finish(round, n, unit, item, carry, sums);
        if (round + 1 < rounds) send<places>(own + plan.tile * plan.stride - copy, made, plan.spread);
      }
      item = next;
      meet_cluster(plan.spread);
    }
    if (has_item) work.keep(n, unit, carry);
  }
}

template <class Product, class Work>
void launch_one_cluster(Context& context, const Work& work, const ClusterPlan& plan) {
  Grid grid(static_cast<unsigned>(plan.clusters * plan.spread), ClusterPlan::threads, plan.shared);
  grid.cluster = static_cast<unsigned>(plan.spread);
  launch(context, grid, one_cluster_kernel<Product, Work>, work, plan, work.rounds());
}

}  // namespace tern::cuda::recurrence
