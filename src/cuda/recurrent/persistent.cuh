#pragma once
// One kernel for a whole sequence: the weights stay in the registers of all multiprocessors, and after each round the
// blocks signal each other that their part of the state is in memory.

#include <cooperative_groups.h>

#include "cuda/async_copy.cuh"
#include "cuda/recurrent/arrivals.cuh"
#include "cuda/recurrent/warp_product.cuh"
#include "cuda/recurrent/work.cuh"

namespace tern::cuda::recurrence {

// ---- blocks that wait for each other ----

/// Marks `round` as finished by this block; every thread calls it.
__device__ __forceinline__ void mark_finished(int* flag, int round) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(flag), "r"(round) : "memory");
}

/// Waits until all `count` blocks have; what they wrote before is visible past L1.
__device__ __forceinline__ void await_all(const int* flags, int count, int round) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    int finished = 0;
    do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(finished) : "l"(flags + i) : "memory");
    while (finished < round);
  }
  __syncthreads();
}

/// The same address in the shared memory of another block of the cluster.
__device__ __forceinline__ float* in_block(float* own, int rank, const Plan& plan) {
#if __CUDA_ARCH__ >= 900
  if (plan.spread > 1) return cooperative_groups::this_cluster().map_shared_rank(own, static_cast<unsigned>(rank));
#endif
  return own;
}

// ---- the kernel ----

/// `width` numbers of each of `count` sequences to shared memory. Other blocks wrote them, so none may come from L1.
__device__ __forceinline__ void copy_states(float* tile, int stride, const float* from, std::int64_t length, int width,
                                            int count, bool aligned) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int step = aligned ? 4 : 1;
  for (int n = 0; n < count; ++n)
    for (int k = thread * step; k < width; k += threads * step) {
      float* const to = tile + n * stride + k;
      const float* const source = from + n * length + k;
      if (aligned)
        copy_async<4, true>(to, source, true);
      else
        *to = __ldcg(source);
    }
}

/// Blocks of a group are consecutive. It is launched so that all its blocks run at once, and not while the kernel
/// before it still runs; so it does without begin_kernel().
template <class Product, class Work>
__global__ void __launch_bounds__(most_warps * 32, 1)
    persistent_kernel(Work work, Plan plan, std::int64_t rounds, std::int64_t length, bool aligned, int* flags) {
  extern __shared__ float4 persistent_shared[];
  float* const tiles = reinterpret_cast<float*>(persistent_shared);
  float* const partials = tiles + 2 * plan.tile * plan.stride;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const int part = static_cast<int>(blockIdx.x) % plan.parts, group = static_cast<int>(blockIdx.x) / plan.parts;
  const int rank = part % plan.spread;
  flags += group * plan.parts;
  const std::int64_t first_unit = static_cast<std::int64_t>(part) * plan.units, batch = work.p.batch;
  const std::int64_t begin = batch * group / plan.groups, end = batch * (group + 1) / plan.groups;
  const int rows = static_cast<int>(end - begin);

  // This warp's weights: some of the cluster's rows, in which a unit's sums are side by side.
  const int block_rows = plan.units * Work::sums, first_row = warp % plan.row_warps * Product::rows;
  const int chunk = warp / plan.row_warps, warp_column = chunk * Product::tile.columns;
  const std::int64_t first_column = static_cast<std::int64_t>(rank) * plan.columns;
  const int width = static_cast<int>(
      max(min(length - first_column, static_cast<std::int64_t>(plan.columns)), static_cast<std::int64_t>(0)));
  Product product;
  product.load([&](int row, int column) {
    const int unit_of_cluster = (first_row + row) / Work::sums;
    const std::int64_t u = first_unit - rank * plan.units + unit_of_cluster, k = first_column + warp_column + column;
    const bool inside = unit_of_cluster < plan.spread * plan.units && u < work.p.width && k < length;
    return inside ? work.factor((first_row + row) % Work::sums, u, k) : 0.0f;
  });
  for (int i = thread; i < 2 * plan.tile * plan.stride; i += static_cast<int>(blockDim.x)) tiles[i] = 0;
  synchronize(plan.spread);  // before anybody writes into another block's memory

  float* partial[Product::tiles];
#pragma unroll
  for (int m = 0; m < Product::tiles; ++m) {
    const int row = first_row + m * 8, slot = (rank * plan.chunks + chunk) * plan.tile * plan.pitch + row % block_rows;
    partial[m] = row < plan.spread * block_rows ? in_block(partials + slot, row / block_rows, plan) : nullptr;
  }
  const int item_row = thread / plan.units, item_unit = thread % plan.units;
  const std::int64_t unit = first_unit + item_unit;
  int copy_of_partials = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const float* const source = work.source(round);
    for (int row = 0, turn = 0; row < rows; row += plan.tile, ++turn) {
      const int count = min(plan.tile, rows - row);
      const bool has_item = item_row < count && unit < work.p.width;
      const std::int64_t n = begin + row + item_row;
      typename Work::Item item{};
      float carry = 0;
      if (has_item) {
        item = work.load(round, n, unit);
        carry = work.carried(round, n, unit);
      }
      const auto copy = [&](int from, int buffer) {
        if (from < rows)
          copy_states(tiles + buffer * plan.tile * plan.stride, plan.stride,
                      source + (begin + from) * length + first_column, length, width, min(plan.tile, rows - from),
                      aligned);
        commit_copies();
      };
      float sums[Work::sums] = {};
      if (source != nullptr) {
        if (turn == 0) {
          if (round > 0) await_all(flags, plan.parts, static_cast<int>(round));
          copy(0, 0);
        }
        copy(row + plan.tile, (turn + 1) % 2);
        await_copies<1>();
        __syncthreads();
        const int place = copy_of_partials * plan.partials() * plan.tile * plan.pitch;
        copy_of_partials = (copy_of_partials + 1) % plan.copies();
        product.multiply(tiles + turn % 2 * plan.tile * plan.stride + warp_column, plan.stride, count, partial, place,
                         plan.pitch);
        synchronize(plan.spread);
        if (has_item)
          for (int s = 0; s < Work::sums; ++s)
            for (int c = 0; c < plan.partials(); ++c)
              sums[s] += partials[place + (c * plan.tile + item_row) * plan.pitch + item_unit * Work::sums + s];
      }
      if (has_item) {
        work.finish(round, n, unit, item, carry, sums);
        work.keep(n, unit, carry);
      }
    }
    if (round + 1 < rounds) mark_finished(flags + part, static_cast<int>(round) + 1);
  }
}

// ---- the launch ----

/// What the current card has room for.
inline Room room_of_card() {
  Room room{.shared = card().shared_per_block};
  room.blocks[0] = card().multiprocessors;
  const auto kernel = persistent_kernel<Scalars<4>, LstmForward>;
  for (int kind = 1; kind < Room::kinds && card().overlap; ++kind) {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {1U << kind, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1U << kind);
    config.blockDim = dim3(most_warps * 32);
    config.attrs = &cluster;
    config.numAttrs = 1;
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), "asking for the size of clusters");
    room.blocks[kind] = std::min(clusters << kind, card().multiprocessors);
  }
  return room;
}

template <class Product, class Work>
void launch_persistent(const Context& context, const Work& work, const Plan& plan, bool aligned, int* flags) {
  const cudaStream_t queue = stream_of(context);
  const int blocks = plan.parts * plan.groups;
  check(cudaMemsetAsync(flags, 0, static_cast<std::size_t>(blocks) * sizeof(int), queue), "clearing");
  const auto kernel = persistent_kernel<Product, Work>;
  allow_shared(reinterpret_cast<const void*>(kernel), plan.shared);
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(plan.spread), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(plan.warps() * 32));
  config.dynamicSmemBytes = plan.shared;
  config.stream = queue;
  config.attrs = attributes;
  config.numAttrs = plan.spread > 1 ? 2 : 1;
  check(cudaLaunchKernelEx(&config, kernel, work, plan, work.rounds(), work.length(), aligned, flags),
        "launching a kernel");
}

}  // namespace tern::cuda::recurrence
