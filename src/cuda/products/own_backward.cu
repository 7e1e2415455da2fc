#include "cuda/branches.cuh"
#include "cuda/products/tiles.cuh"

namespace tern::cuda::products {
namespace {

// The first `weight_blocks` blocks compute the weight's gradient, the others that of x: independent work in one launch.
struct BackwardArguments {
  Product weight, data;
  int weight_blocks;
};

template <class Weight, class Data, bool Shared>
__global__ void __launch_bounds__(product_threads,
                                  Weight::resident < Data::resident ? Weight::resident : Data::resident)
    backward_kernel(const __grid_constant__ KernelArguments<BackwardArguments, Shared> passed) {
  extern __shared__ float4 shared[];
  const BackwardArguments& mine = passed.mine();
  float* const memory = reinterpret_cast<float*>(shared);
  const int block = static_cast<int>(blockIdx.x), of_data = block - mine.weight_blocks;
  if (of_data < 0)
    compute_tile<Weight, false, false, true>(mine.weight, block / mine.weight.split, block % mine.weight.split, memory);
  else
    compute_tile<Data, true, false, true>(mine.data, of_data / mine.data.split, of_data % mine.data.split, memory);
}

template <class Weight, class Data>
void launch_backward(const Context& context, const Product& weight, const Product& data) {
  constexpr std::size_t bytes = std::max(Weight::shared_bytes(false, false), Data::shared_bytes(true, false));
  const int cluster = std::max(weight.split, data.split);
  const auto whole_clusters = [&](std::int64_t blocks) {  // surplus blocks find no tile
    return static_cast<int>((blocks + cluster - 1) / cluster * cluster);
  };
  const int weight_blocks =
      weight.out == nullptr ? 0 : whole_clusters(Weight::tiles(weight.m, weight.n) * weight.split);
  const int data_blocks = data.out == nullptr ? 0 : whole_clusters(Data::tiles(data.m, data.n) * data.split);
  Grid grid(static_cast<unsigned>(weight_blocks + data_blocks), product_threads, bytes);
  grid.cluster = static_cast<unsigned>(cluster);
  const BackwardArguments arguments{weight, data, weight_blocks};
  if constexpr (small<Weight> && small<Data>)
    launch_shared(context, grid, arguments, [](auto shared) { return backward_kernel<Weight, Data, shared>; });
  else
    launch(context, grid, backward_kernel<Weight, Data, false>, KernelArguments<BackwardArguments, false>{arguments});
}

}  // namespace

void own_backward(const Context& context, const Product& weight, const Product& data, const Problem& problem,
                  const Tiling& tiling) {
  Product for_weight = weight, for_data = data;
  for_weight.split = tiling.split;
  for_data.split = tiling.split_data;
  const auto run = [&]<class Weight, class Data>(Pair<Weight, Data>) {
    launch_backward<Weight, Data>(context, for_weight, for_data);
  };
  on_tensor_cores(problem) ? with_pair<true>(tiling.tile, tiling.tile_data, run)
                           : with_pair<false>(tiling.tile, tiling.tile_data, run);
}

}  // namespace tern::cuda::products
