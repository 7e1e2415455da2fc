// A convolution whose kernel has one element is a matrix product over the positions, by cuBLASLt.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/packed.cuh"
#include "cuda/products/library.cuh"

namespace tern::cuda::convolution {
namespace {

products::Problem product_of(const Problem& asked, const Task& task) {
  constexpr std::uint32_t of_workspace = 256;
  const Problem& packed = task.packed;
  products::Problem product;
  product.m = asked.positions();
  product.in = packed.element;
  product.precision = packed.precision;
  product.deterministic = asked.deterministic;
  product.device = asked.device;
  const std::uint32_t image = task.takes_image ? asked.given.x : of_workspace;
  const std::uint32_t weight = task.takes_weight ? asked.given.weight : of_workspace;
  if (asked.pass == Pass::forward) {
    product.n = asked.O;
    product.k = asked.C;
    product.transpose_b = true;
    product.pitch = asked.y_channels;
    product.activation = asked.activation;
    product.given = {asked.given.y, image, weight, asked.given.bias};
  } else {
    product.n = asked.C;
    product.k = asked.O;
    product.given = {image, asked.given.y, weight};
  }
  return product;
}

struct Product {
  static int next_plan(const Problem& asked, const Task& task, int plan) {
    return products::next_algorithm(product_of(asked, task), plan);
  }
  static std::size_t workspace(const Problem& asked, const Task& task, int plan) {
    return products::algorithm_workspace(product_of(asked, task), plan);
  }
  static void run(Context& context, const Problem& asked, const Task& task, const Arrays& arrays, int plan,
                  void* workspace) {
    const products::Arrays on = asked.pass == Pass::forward
                                    ? products::Arrays{arrays.y, arrays.x, arrays.weight, arrays.bias}
                                    : products::Arrays{arrays.x, arrays.y, arrays.weight};
    products::run_algorithm(context, product_of(asked, task), on, plan, workspace);
  }
};

template <Element element>
Task forward_task(const Problem& asked) {
  const Problem problem = with_epilogue(asked, element);
  return {problem, takes_image(asked, problem), takes_weight(asked, problem), true};
}
template <Element element>
bool forward_fits(const Problem& asked) {
  return asked.channels_last() && asked.given.bias != 0 && asked.given.bias % 16 == 0 &&
         (asked.activation == Activation::none || asked.activation == Activation::relu) &&
         (element == Element::float32 || (asked.precision == Precision::bf16 && has_engines())) &&
         is_product(asked, packed(asked, element));
}

Task grad_x_task(const Problem& asked) {
  const Problem problem = packed(asked, asked.element);
  return {problem, true, takes_weight(asked, problem), true};
}
bool grad_x_fits(const Problem& asked) {
  return asked.channels_last() && is_product(asked, packed(asked, asked.element));
}

constexpr Element f32 = Element::float32, f16 = Element::bfloat16;

}  // namespace

const Algorithm product_forward_bf16 = Around<forward_task<f16>, Product>::algorithm("product", forward_fits<f16>);
const Algorithm product_forward = Around<forward_task<f32>, Product>::algorithm("product", forward_fits<f32>);
const Algorithm product_grad_x = Around<grad_x_task, Product>::algorithm("product", grad_x_fits);

}  // namespace tern::cuda::convolution
