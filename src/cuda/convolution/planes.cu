#include <cooperative_groups.h>

#include <cstdlib>

#include "cuda/convolution/planes.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/fused.cuh"

namespace tern::cuda::convolution {
namespace {

constexpr int sum_threads = 256;

/// The gradient of y on its way through an activation.
template <class T>
struct Passing {
  T* to;
  const T* y;
  Activation activation;
};

/// The blocks of a cluster add the planes of a channel, which are so many packs. Through: they pass first.
template <int V, bool Through, class T>
__global__ void __launch_bounds__(sum_threads)
    sum_planes_kernel(T* to, const T* g, Passing<T> passing, std::uint32_t packs, Divisor<std::uint32_t> packs_of_plane,
                      std::int64_t O, unsigned blocks) {
  __shared__ float sums[sum_threads];
  __shared__ float of_block;
  begin_kernel();
  const std::int64_t o = blockIdx.x / blocks;
  float sum = 0;
#pragma unroll 4
  for (std::uint32_t i = blockIdx.x % blocks * sum_threads + threadIdx.x; i < packs; i += blocks * sum_threads) {
    std::uint32_t n = i;
    const std::uint32_t in_plane = packs_of_plane.split(n);
    const std::int64_t at = ((n * O + o) * packs_of_plane.value() + in_plane) * V;
    auto pack = load<V>(g + at);
    if constexpr (Through) {
      const auto y = load<V>(passing.y + at);
#pragma unroll
      for (int lane = 0; lane < V; ++lane)
        pack.value[lane] = through_activation(pack.value[lane], y.value[lane], passing.activation);
      store<V>(passing.to + at, pack);
    }
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

constexpr std::int64_t most_blocks = 8;  // of a cluster

template <int V, bool Through, class T>
void sum(const Context& context, T* to, const T* g, const Passing<T>& passing, std::int64_t N, std::int64_t O,
         std::int64_t area) {
  constexpr std::int64_t least_packs = 2048, wanted = 1056;  // of a block; blocks of a card
  const std::int64_t packs = N * (area / V);
  unsigned blocks = 1;
  while (card().overlap && blocks < most_blocks && O * blocks * 2 <= wanted && packs >= 2 * blocks * least_packs)
    blocks *= 2;
  Grid grid(static_cast<unsigned>(O) * blocks, sum_threads);
  grid.cluster = blocks;
  launch(context, grid, sum_planes_kernel<V, Through, T>, to, g, passing, static_cast<std::uint32_t>(packs),
         Divisor<std::uint32_t>(area / V), O, blocks);
}

}  // namespace

template <class T>
void sum_planes(const Context& context, T* to, const T* g, std::int64_t N, std::int64_t O, std::int64_t area) {
  constexpr int V = pack_of_registers<T>;
  if (area % V == 0 && aligned<V>(g)) return sum<V, false>(context, to, g, Passing<T>{}, N, O, area);
  sum<1, false>(context, to, g, Passing<T>{}, N, O, area);
}

template <class T>
bool pass_planes(const Context& context, T* to, T* grad_bias, const T* grad_y, const T* y, const kernels::Conv2d& s) {
  constexpr int V = pack_of_registers<T>;
  constexpr std::int64_t least = 1'000'000, blocks = 528, most = std::int64_t{1} << 31;
  const std::int64_t area = s.OH * s.OW, packs = s.N * (area / V);
  if (std::getenv("TERN_OLD_PASS") != nullptr) return false;  // temporary
  if (!card().overlap || s.N * s.O * area < least || s.O * most_blocks < blocks || packs >= most || area % V != 0 ||
      !aligned<V>(to) || !aligned<V>(grad_y) || !aligned<V>(y))
    return false;
  sum<V, true>(context, grad_bias, grad_y, Passing<T>{to, y, s.activation}, s.N, s.O, area);
  return true;
}
template void sum_planes(const Context&, float*, const float*, std::int64_t, std::int64_t, std::int64_t);
template void sum_planes(const Context&, BFloat16*, const BFloat16*, std::int64_t, std::int64_t, std::int64_t);
template void sum_planes(const Context&, Float16*, const Float16*, std::int64_t, std::int64_t, std::int64_t);
template bool pass_planes(const Context&, float*, float*, const float*, const float*, const kernels::Conv2d&);
template bool pass_planes(const Context&, BFloat16*, BFloat16*, const BFloat16*, const BFloat16*,
                          const kernels::Conv2d&);
template bool pass_planes(const Context&, Float16*, Float16*, const Float16*, const Float16*, const kernels::Conv2d&);

}  // namespace tern::cuda::convolution
