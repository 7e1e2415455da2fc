#include "cuda/branches.cuh"
#include "cuda/products/tiles.cuh"

namespace tern::cuda::products {
namespace {

struct ProductArguments {
  Product product;
  std::int64_t stride_a, stride_b;  // between the products of a batch
};

template <class Shape, bool KA, bool KB, bool Shared>
__global__ void __launch_bounds__(product_threads, Shape::resident)
    product_kernel(const __grid_constant__ KernelArguments<ProductArguments, Shared> passed) {
  extern __shared__ float4 shared[];
  const ProductArguments& mine = passed.mine();
  const int block = static_cast<int>(blockIdx.x);
  float* const memory = reinterpret_cast<float*>(shared);
  if (gridDim.y == 1) {
    compute_tile<Shape, KA, KB, false>(mine.product, block / mine.product.split, block % mine.product.split, memory);
    return;
  }
  Product product = mine.product;
  product.a.data += blockIdx.y * mine.stride_a;
  product.b.data += blockIdx.y * mine.stride_b;
  product.out += static_cast<std::int64_t>(blockIdx.y) * product.m * product.n;
  compute_tile<Shape, KA, KB, false>(product, block / product.split, block % product.split, memory);
}

template <class Shape, bool KA, bool KB>
void launch_product(const Context& context, const Product& product, std::int64_t batch, std::int64_t stride_a,
                    std::int64_t stride_b) {
  Grid grid(
      dim3(static_cast<unsigned>(Shape::tiles(product.m, product.n) * product.split), static_cast<unsigned>(batch)),
      product_threads, Shape::shared_bytes(KA, KB));
  grid.cluster = static_cast<unsigned>(product.split);
  const ProductArguments arguments{product, stride_a, stride_b};
  if constexpr (KA && KB && small<Shape>)
    launch_shared(context, grid, arguments, [](auto shared) { return product_kernel<Shape, KA, KB, shared>; });
  else
    launch(context, grid, product_kernel<Shape, KA, KB, false>, KernelArguments<ProductArguments, false>{arguments});
}

template <bool Tensor>
void run(const Context& context, const Product& product, const Problem& problem, int tile) {
  const std::int64_t batch = problem.batch, stride_a = problem.stride_a, stride_b = problem.stride_b;
  with_tile<Tensor>(tile, [&]<class Shape>(std::type_identity<Shape>) {
    if (row_by_row(problem)) return launch_product<Shape, true, true>(context, product, batch, stride_a, stride_b);
    // See tile_exists.
    if constexpr (std::is_same_v<Shape, Tile1<Tensor>> || std::is_same_v<Shape, Tile3<Tensor>>) {
      if (!problem.transpose_a) return launch_product<Shape, true, false>(context, product, batch, stride_a, stride_b);
      if (problem.transpose_b) return launch_product<Shape, false, true>(context, product, batch, stride_a, stride_b);
      launch_product<Shape, false, false>(context, product, batch, stride_a, stride_b);
    }
  });
}

}  // namespace

void own_product(const Context& context, const Product& product, const Problem& problem, const Tiling& tiling) {
  Product mine = product;
  mine.split = tiling.split;
  on_tensor_cores(problem) ? run<true>(context, mine, problem, tiling.tile)
                           : run<false>(context, mine, problem, tiling.tile);
}

}  // namespace tern::cuda::products
