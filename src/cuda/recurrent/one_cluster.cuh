#pragma once
// One kernel for a whole sequence of a layer whose weights fit into the registers of one block or one cluster: after
// each round, a block writes its part of the state into the shared memory of all.

#include "cuda/recurrent/arrivals.cuh"
#include "cuda/recurrent/plan.cuh"
#include "cuda/recurrent/work.cuh"

namespace tern::cuda::recurrence {

/// What a thread multiplies: the weights between one unit's sums and all that `others` units make, unit by unit.
template <class Work>
struct UnitWeights {
  static constexpr int others = ClusterPlan::others, columns = others * Work::made;
  float weight[Work::sums][columns];

  /// From unit `first` on, of `width`; zeros where there are no more, or if this thread has none.
  __device__ __forceinline__ void load(const Work& work, int unit, int first, int width, bool any) {
#pragma unroll
    for (int s = 0; s < Work::sums; ++s)
#pragma unroll
      for (int k = 0; k < columns; ++k) {
        const int other = first + k / Work::made;
        weight[s][k] = any && other < width ? work.factor(s, unit, k % Work::made * width + other) : 0.0f;
      }
  }

  /// The products with the states of one sequence, from those of unit `first` on.
  __device__ __forceinline__ void multiply(const float* states, float* sums) const {
    constexpr int chains = Work::sums == 1 ? 4 : 1;  // sums that are added side by side
    float sum[Work::sums][chains] = {};
#pragma unroll
    for (int k = 0; k < columns; k += 4) {
      const float4 state = *reinterpret_cast<const float4*>(states + k);
#pragma unroll
      for (int s = 0; s < Work::sums; ++s) {
        sum[s][0] = fmaf(weight[s][k], state.x, sum[s][0]);
        sum[s][1 % chains] = fmaf(weight[s][k + 1], state.y, sum[s][1 % chains]);
        sum[s][2 % chains] = fmaf(weight[s][k + 2], state.z, sum[s][2 % chains]);
        sum[s][3 % chains] = fmaf(weight[s][k + 3], state.w, sum[s][3 % chains]);
      }
    }
#pragma unroll
    for (int s = 0; s < Work::sums; ++s)
      sums[s] = chains == 1 ? sum[s][0] : (sum[s][0] + sum[s][1 % chains]) + (sum[s][2 % chains] + sum[s][3 % chains]);
  }
};

/// Thread t multiplies for unit t % units, its t / units -th `others`, and finishes an item of that unit. There are two
/// copies of the states, since one block may still read a round's while another sends the next. What an item reads from
/// memory is requested a round ahead, and waits in shared memory, since registers are full.
template <class Work>
__global__ void __launch_bounds__(ClusterPlan::threads_of(Work::sums* Work::made), 1)
    one_cluster_kernel(Work work, ClusterPlan plan, int rounds) {
  extern __shared__ float4 cluster_shared[];
  float* const states = reinterpret_cast<float*>(cluster_shared) + ClusterPlan::other_bytes / sizeof(float);
  float* const partials = states + 2 * plan.tile * plan.stride;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int rank = static_cast<int>(blockIdx.x) % plan.spread, cluster = static_cast<int>(blockIdx.x) / plan.spread;
  const int own_unit = thread % plan.units, part = thread / plan.units, width = static_cast<int>(work.p.width);
  const int unit = rank * plan.units + own_unit, batch = static_cast<int>(work.p.batch);
  const auto place_of = [&](int chunk, int row) {
    return partials + ((chunk * plan.tile + row) * plan.units + own_unit) * Work::sums;
  };
  // Of this thread's item: where the states have it, and what it reads from memory.
  float* const own = states + part * plan.stride + unit * Work::made;
  static_assert(sizeof(typename Work::Item) <= ClusterPlan::item_bytes);
  auto* const item =
      reinterpret_cast<typename Work::Item*>(partials + plan.chunks * plan.tile * plan.units * Work::sums) + thread;
  Arrivals arrivals(cluster_shared);
  begin_kernel();

  UnitWeights<Work> weights;
  weights.load(work, unit, part * ClusterPlan::others, width, unit < width && part < plan.chunks);
  for (int i = thread; i < 2 * plan.tile * plan.stride; i += threads) states[i] = 0;

  for (int first = cluster * plan.tile; first < batch; first += plan.clusters * plan.tile) {
    const int count = min(batch - first, plan.tile), n = first + part;
    const bool has_item = part < count && unit < width;
    __syncthreads();
    if (const float* const source = work.first_source(); source != nullptr)  // one number of a unit
      for (int i = thread; i < count * width; i += threads)
        states[i / width * plan.stride + i % width] = source[static_cast<std::int64_t>(first) * width + i];
    float carry = 0;
    if (has_item) {
      carry = work.carried(0, n, unit);
      *item = work.load(0, n, unit);
    }
    synchronize(plan.spread);
    for (int round = 0; round < rounds; ++round) {
      typename Work::Item next{};
      if (has_item && round + 1 < rounds) next = work.load(round + 1, n, unit);
      float sums[Work::sums] = {};
      const int copy = round % 2 * plan.tile * plan.stride;
      if (work.source(round) != nullptr) {
        if (round > 0 && plan.spread > 1) arrivals.await(round, count * width * Work::made * sizeof(float));
        if (part < plan.chunks)
          for (int i = 0; i < count; ++i)
            weights.multiply(states + copy + i * plan.stride + part * UnitWeights<Work>::columns, place_of(part, i));
        __syncthreads();
        if (has_item)
          for (int c = 0; c < plan.chunks; ++c)
#pragma unroll
            for (int s = 0; s < Work::sums; ++s) sums[s] += place_of(c, part)[s];
      }
      if (has_item) {
        const Made<Work::made> made = work.finish(round, n, unit, *item, carry, sums);
        *item = next;
        float* const to = own + plan.tile * plan.stride - copy;
        const bool last = round + 1 == rounds;  // nobody reads its state
        if (!last && plan.spread > 1) {
          arrivals.send(to, made.values, round + 1, plan.spread);
        } else if (!last) {
#pragma unroll
          for (int i = 0; i < Work::made; ++i) to[i] = made.values[i];
        }
      }
      if (plan.spread == 1) __syncthreads();
    }
    if (has_item) work.keep(n, unit, carry);
  }
}

template <class Work>
void launch_one_cluster(Context& context, const Work& work, const ClusterPlan& plan) {
  const int threads = ClusterPlan::threads_of(Work::sums * Work::made);
  Grid grid(static_cast<unsigned>(plan.clusters * plan.spread), static_cast<unsigned>(threads), plan.shared);
  grid.cluster = static_cast<unsigned>(plan.spread);
  launch(context, grid, one_cluster_kernel<Work>, work, plan, static_cast<int>(work.rounds()));
}

}  // namespace tern::cuda::recurrence
