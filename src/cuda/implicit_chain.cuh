#pragma once
// Implicit products in a chain (chains.cuh).

#include "cuda/chains.cuh"
#include "cuda/implicit_tiles.cuh"

namespace tern::cuda::implicit_tiles {

template <class Product>
struct Link {
  Product product;
  int tiles, waits;  ///< waits: whether it must see what earlier links wrote
};

/// Waits until a counter has reached `target`.
struct AwaitAll {
  static constexpr bool weights_first = true;
  const unsigned* arrived;
  unsigned target;
  bool& waits;
  __device__ __forceinline__ void operator()() const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (waits && threadIdx.x == 0) {
      unsigned now = 0;
      do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
      while (now < target);
    }
    waits = false;
#endif
  }
};

/// It is launched so that all its blocks run at once, after the kernel before it; so it does without begin_kernel().
/// The counter is 0 again at the end.
template <class Cores, class Channels, class Product>
__global__ void __launch_bounds__(ChainTile::threads, ChainTile::resident)
    chain_kernel(const Link<Product>* links, int count, unsigned arrivals, unsigned* arrived) {
  extern __shared__ __align__(128) std::uint8_t ring[];
  constexpr int words = sizeof(Link<Product>) / 4;
  __shared__ __align__(16) std::uint32_t here[2][words + words % 2];
  const auto fetch = [&](int number) {
    if (number >= count) return;
    const auto* const from = reinterpret_cast<const std::uint32_t*>(links + number);
    for (int i = static_cast<int>(threadIdx.x); i < words; i += ChainTile::threads) here[number % 2][i] = from[i];
  };
  const auto link_of = [&](int number) -> const Link<Product>& {
    return *reinterpret_cast<const Link<Product>*>(here[number % 2]);
  };
  const auto arrive = [&] {
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();
    atomicInc(arrived, arrivals - 1);
  };
  const int rank = static_cast<int>(blockIdx.x) % chain_cluster, cluster = static_cast<int>(blockIdx.x) / chain_cluster;
  const int clusters = static_cast<int>(gridDim.x) / chain_cluster;
  unsigned target = 0;
  fetch(0);
#pragma unroll 1
  for (int number = 0; number < count; ++number) {
    __syncthreads();
    const Link<Product>& link = link_of(number);
    fetch(number + 1);
    const int split = link.product.factors.split, at_once = chain_cluster / split;
    bool waits = link.waits != 0;
    if (waits) target += gridDim.x;
    const AwaitAll before_x{arrived, target, waits};
#pragma unroll 1
    for (int first = cluster * at_once; first < link.tiles; first += clusters * at_once) {
      run_tile<ChainTile, 16, Cores, Channels>(ring, link.product, first + rank / split, rank % split, before_x);
      __syncthreads();
    }
    before_x();
    __syncthreads();
    if (number + 1 == count || link_of(number + 1).waits != 0) arrive();
  }
}

/// The blocks of a chain that run at once; 0: the card has none.
template <class Cores, class Channels, class Product>
int chain_blocks() {
  static const int blocks = [] {
    const auto kernel = chain_kernel<Cores, Channels, Product>;
    if (!card().overlap || card().shared_per_block < ChainTile::shared_bytes) return 0;
    allow_shared(reinterpret_cast<const void*>(kernel), ChainTile::shared_bytes);
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {chain_cluster, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(chain_cluster);
    config.blockDim = dim3(ChainTile::threads);
    config.dynamicSmemBytes = ChainTile::shared_bytes;
    config.attrs = &cluster;
    config.numAttrs = 1;
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), "asking for the size of clusters");
    return clusters * chain_cluster;
  }();
  return blocks;
}

template <class Cores, class Channels, class Product>
void launch_chain(const Context& context, std::byte* table, int links, int waits) {
  const auto kernel = chain_kernel<Cores, Channels, Product>;
  const auto blocks = static_cast<unsigned>(chain_blocks<Cores, Channels, Product>());
  allow_shared(reinterpret_cast<const void*>(kernel), ChainTile::shared_bytes);
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {chain_cluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(ChainTile::threads);
  config.dynamicSmemBytes = ChainTile::shared_bytes;
  config.stream = stream_of(context);
  config.attrs = attributes;
  config.numAttrs = 2;
  check(cudaLaunchKernelEx(&config, kernel, reinterpret_cast<const Link<Product>*>(table + Chain::counter_bytes), links,
                           blocks * static_cast<unsigned>(waits + 1), reinterpret_cast<unsigned*>(table)),
        "launching a kernel");
}

/// Chains the product, or launches it as a chain of its own if nothing is recorded. `alone` launches it otherwise.
template <class Cores, class Channels, class Product>
void chain_product(Context& context, const Product& product, int split, const std::vector<Touched>& reads,
                   const Touched& writes, bool joins, std::function<void()> alone) {
  Link<Product> link{product, 0, 0};
  const Grid grid = divide<ChainTile>(link.product.factors, split);
  link.tiles = static_cast<int>(grid.blocks.x) / split;
  constexpr auto launch = launch_chain<Cores, Channels, Product>;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&link);
  if (!joins) return launch_link(context, launch, bytes, sizeof link);
  link.waits = next_link(context, launch, reads, writes) ? 1 : 0;
  add_link(bytes, sizeof link, std::move(alone));
}

}  // namespace tern::cuda::implicit_tiles
