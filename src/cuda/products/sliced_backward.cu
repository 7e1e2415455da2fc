#include <algorithm>

#include "cuda/branches.cuh"
#include "cuda/products/sliced_shapes.cuh"
#include "cuda/products/slots.cuh"

namespace tern::cuda::products {
namespace {

// The first `weight_blocks` blocks compute the weight's gradient, the others that of x: independent work in one launch.
struct SlicedArguments {
  Product weight, data;
  std::int64_t weight_blocks;
};

template <class Pair, bool Packs, bool Shared>
__global__ void __launch_bounds__(Pair::weight::threads)
    sliced_backward_kernel(const __grid_constant__ KernelArguments<SlicedArguments, Shared> passed) {
  extern __shared__ float4 shared[];
  const SlicedArguments& mine = passed.mine();
  float* const memory = reinterpret_cast<float*>(shared);
  const int block = static_cast<int>(blockIdx.x), of_data = block - static_cast<int>(mine.weight_blocks);
  if (of_data < 0)
    compute_slices<typename Pair::weight, false, false, true, Packs>(mine.weight, block, memory);
  else
    compute_slices<typename Pair::data, true, false, true, Packs>(mine.data, of_data, memory);
}

template <class Pair, bool Packs>
void launch_pair(const Context& context, const Product& weight, const Product& data) {
  using Weight = typename Pair::weight;
  using Data = typename Pair::data;
  const std::int64_t weight_blocks = weight.out == nullptr ? 0 : Weight::tiles(weight.m, weight.n);
  const std::int64_t data_blocks = data.out == nullptr ? 0 : Data::tiles(data.m, data.n);
  const Grid grid(static_cast<unsigned>(weight_blocks + data_blocks), Weight::threads,
                  std::max(Weight::shared_bytes, Data::shared_bytes));
  const SlicedArguments arguments{weight, data, weight_blocks};
  if constexpr (Data::all_columns <= 16)
    launch_shared(context, grid, arguments, [](auto shared) { return sliced_backward_kernel<Pair, Packs, shared>; });
  else
    launch(context, grid, sliced_backward_kernel<Pair, Packs, false>,
           KernelArguments<SlicedArguments, false>{arguments});
}

template <bool Doubles>
void run(const Context& context, const Product& weight, const Product& data, int shape) {
  // If single elements are read, as for ten classes, few shapes are worth choosing between.
  if (!(weight.out == nullptr ? data : weight).a.aligned)
    return launch_pair<std::tuple_element_t<0, BackwardShapes<Doubles>>, false>(context, weight, data);
  with_slices<BackwardShapes<Doubles>>(
      shape, [&]<class Pair>(std::type_identity<Pair>) { launch_pair<Pair, true>(context, weight, data); });
}

}  // namespace

void sliced_backward(const Context& context, const Product& weight, const Product& data, const Problem& problem) {
  const Slices slices = slices_of_backward(context, problem);
  slices.doubles ? run<true>(context, weight, data, slices.shape) : run<false>(context, weight, data, slices.shape);
}

}  // namespace tern::cuda::products
