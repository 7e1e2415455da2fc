// A convolution with a 1x1 kernel is a matrix product over the positions, by cuBLASLt.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/packed.cuh"
#include "cuda/products/library.cuh"

namespace tern::cuda::convolution {
namespace {

products::Problem product_of(const Problem& requested, const Task& task) {
  constexpr std::uint32_t of_workspace = 256;
  const Problem& packed = task.packed;
  products::Problem product;
  product.m = requested.positions();
  product.in = packed.element;
  product.out = packed.stored;
  product.precision = packed.precision;
  product.deterministic = requested.deterministic;
  product.device = requested.device;
  const std::uint32_t image = task.takes_image ? requested.inputs.x : of_workspace;
  const std::uint32_t weight = task.takes_weight ? requested.inputs.weight : of_workspace;
  if (requested.pass == Pass::forward) {
    product.n = requested.O;
    product.k = requested.C;
    product.transpose_b = true;
    product.pitch = requested.y_channels;
    product.activation = packed.activation;
    product.inputs = {requested.inputs.y, image, weight, requested.inputs.bias};
  } else {
    product.n = requested.C;
    product.k = requested.O;
    product.inputs = {image, requested.inputs.y, weight};
  }
  return product;
}

struct Product {
  static int next_plan(const Problem& requested, const Task& task, int plan) {
    return products::next_algorithm(product_of(requested, task), plan);
  }
  static std::size_t workspace(const Problem& requested, const Task& task, int plan) {
    return products::algorithm_workspace(product_of(requested, task), plan);
  }
  static void run(Context& context, const Problem& requested, const Task& task, const Arrays& arrays, int plan,
                  void* workspace) {
    const products::Arrays on = requested.pass == Pass::forward
                                    ? products::Arrays{arrays.y, arrays.x, arrays.weight, arrays.bias}
                                    : products::Arrays{arrays.x, arrays.y, arrays.weight};
    products::run_algorithm(context, product_of(requested, task), on, plan, workspace);
  }
};

template <bool narrow>
Task forward_task(const Problem& requested) {
  const Problem problem = with_epilogue(requested, narrow ? Element::bfloat16 : requested.stored);
  return {problem, takes_image(requested, problem), takes_weight(requested, problem), true};
}
template <bool narrow>
bool forward_fits(const Problem& requested) {
  return requested.channels_last() && requested.inputs.bias != 0 && requested.inputs.bias % 16 == 0 &&
         (requested.activation == Activation::none || requested.activation == Activation::relu ||
          clips_afterwards(requested)) &&
         (!narrow || rounds_factors(requested)) &&
         is_product(requested, packed(requested, narrow ? Element::bfloat16 : requested.stored));
}

Task grad_x_task(const Problem& requested) {
  const Problem problem = packed(requested, requested.element);
  return {problem, true, takes_weight(requested, problem), true};
}
bool grad_x_fits(const Problem& requested) {
  return requested.channels_last() && is_product(requested, packed(requested, requested.element));
}

}  // namespace

const Algorithm product_forward_first = Around<forward_task<false>, Product>::algorithm(
    "product", [](const Problem& requested) { return forward_fits<false>(requested) && writes_slice(requested); });
const Algorithm product_forward_bf16 = Around<forward_task<true>, Product>::algorithm("product", forward_fits<true>);
const Algorithm product_forward = Around<forward_task<false>, Product>::algorithm(
    "product", [](const Problem& requested) { return forward_fits<false>(requested) && !writes_slice(requested); });
const Algorithm product_grad_x = Around<grad_x_task, Product>::algorithm("product", grad_x_fits);

}  // namespace tern::cuda::convolution
