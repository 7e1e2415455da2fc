#include "cuda/branches.cuh"
#include "cuda/products/sliced_shapes.cuh"
#include "cuda/products/slots.cuh"

namespace tern::cuda::products {
namespace {

template <class Shape, bool Shared>
__global__ void __launch_bounds__(Shape::threads)
    sliced_kernel(const __grid_constant__ KernelArguments<Product, Shared> passed) {
  extern __shared__ float4 shared[];
  compute_slices<Shape, true, true, false, true>(passed.mine(), static_cast<int>(blockIdx.x),
                                                 reinterpret_cast<float*>(shared));
}

template <bool Doubles>
void run(const Context& context, const Product& product, int shape) {
  with_slices<ForwardShapes<Doubles>>(shape, [&]<class Shape>(std::type_identity<Shape>) {
    const Grid grid(static_cast<unsigned>(Shape::tiles(product.m, product.n)), Shape::threads, Shape::shared_bytes);
    // Larger tiles fill the card by themselves.
    if constexpr (Shape::rows * Shape::all_columns <= 16 * 32)
      launch_shared(context, grid, product, [](auto shared) { return sliced_kernel<Shape, shared>; });
    else
      launch(context, grid, sliced_kernel<Shape, false>, KernelArguments<Product, false>{product});
  });
}

}  // namespace

void sliced_product(const Context& context, const Product& product, const Problem& problem) {
  const Slices slices = slices_of(context, problem);
  slices.doubles ? run<true>(context, product, slices.shape) : run<false>(context, product, slices.shape);
}

}  // namespace tern::cuda::products
