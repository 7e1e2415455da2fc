#include <cooperative_groups.h>

#include "cuda/convolution/planes.cuh"
#include "cuda/elementwise.cuh"

namespace tern::cuda::convolution {
namespace {

constexpr int sum_threads = 256;

/// The blocks of a cluster add the planes of a channel, which are so many packs.
template <int V, class T>
__global__ void __launch_bounds__(sum_threads)
    sum_planes_kernel(T* to, const T* g, std::uint32_t packs, Divisor<std::uint32_t> packs_of_plane, std::int64_t O,
                      unsigned blocks) {
  __shared__ float sums[sum_threads];
  __shared__ float of_block;
  begin_kernel();
  const std::int64_t o = blockIdx.x / blocks;
  float sum = 0;
#pragma unroll 4
  for (std::uint32_t i = blockIdx.x % blocks * sum_threads + threadIdx.x; i < packs; i += blocks * sum_threads) {
    std::uint32_t n = i;
    const std::uint32_t in_plane = packs_of_plane.split(n);
    const auto pack = load<V>(g + ((n * O + o) * packs_of_plane.value() + in_plane) * V);
#pragma unroll
    for (int lane = 0; lane < V; ++lane) sum += pack.value[lane];
  }
  sums[threadIdx.x] = sum;
  for (unsigned half = sum_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) of_block = sum = sums[0];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0)
      for (unsigned other = 1; other < blocks; ++other) sum += *cluster.map_shared_rank(&of_block, other);
    cluster.sync();  // nobody leaves while its sum is being read
  }
#endif
  if (threadIdx.x == 0 && blockIdx.x % blocks == 0) put(to[o], sum);
}

template <int V, class T>
void sum(const Context& context, T* to, const T* g, std::int64_t N, std::int64_t O, std::int64_t area) {
  constexpr std::int64_t least_packs = 2048, wanted = 1056, most = 8;  // of a block; blocks of a card, and of a cluster
  const std::int64_t packs = N * (area / V);
  unsigned blocks = 1;
  while (card().overlap && blocks < most && O * blocks * 2 <= wanted && packs >= 2 * blocks * least_packs) blocks *= 2;
  Grid grid(static_cast<unsigned>(O) * blocks, sum_threads);
  grid.cluster = blocks;
  launch(context, grid, sum_planes_kernel<V, T>, to, g, static_cast<std::uint32_t>(packs),
         Divisor<std::uint32_t>(area / V), O, blocks);
}

}  // namespace

template <class T>
void sum_planes(const Context& context, T* to, const T* g, std::int64_t N, std::int64_t O, std::int64_t area) {
  constexpr int V = pack_of_registers<T>;
  if (area % V == 0 && aligned<V>(g)) return sum<V>(context, to, g, N, O, area);
  sum<1>(context, to, g, N, O, area);
}
template void sum_planes(const Context&, float*, const float*, std::int64_t, std::int64_t, std::int64_t);
template void sum_planes(const Context&, BFloat16*, const BFloat16*, std::int64_t, std::int64_t, std::int64_t);
template void sum_planes(const Context&, Float16*, const Float16*, std::int64_t, std::int64_t, std::int64_t);

}  // namespace tern::cuda::convolution
