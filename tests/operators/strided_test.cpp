// The gradient of x through a stride on cuda, as implicit products of its phases: whole numbers, whose sums strict
// float32 and TF32 have exactly.

#include "operators/every_plan.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

/// Odd sizes, kernels smaller than the stride, strides and dilations with and without a common factor, groups, long
/// sums.
const std::vector<ConvSizes>& sizes() {
  static const std::vector<ConvSizes> all{{{2, 16, 9, 11}, {24, 16, 3, 3}, {.stride = 2, .padding = 1}},
                                          {{1, 8, 7, 7}, {1192, 8, 5, 5}, {.stride = 2, .padding = 2}},
                                          {{3, 136, 10, 13}, {8, 136, 7, 7}, {.stride = 3, .padding = 3}},
                                          {{2, 8, 9, 9}, {8, 8, 2, 2}, {.stride = 3}},
                                          {{2, 16, 7, 6}, {24, 16, 1, 1}, {.stride = 2}},
                                          {{1, 16, 12, 13}, {16, 16, 3, 3}, {.stride = 2, .padding = 2, .dilation = 2}},
                                          {{1, 16, 12, 11}, {16, 16, 5, 5}, {.stride = 2, .padding = 9, .dilation = 3}},
                                          {{2, 60, 8, 9}, {40, 12, 3, 3}, {.stride = 2, .padding = 1, .groups = 5}}};
  return all;
}

Tensor gradient(const ConvSizes& of, const Tensor& x, const Tensor& weight, const Tensor& g) {
  const Tensor image = x.clone().set_requires_grad();
  op::conv2d(image, weight, {}, of.options).backward(g);
  return image.grad();
}

}  // namespace

TEST_CASE("implicit products: the gradient of x through a stride is exact", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  for (const ConvSizes& of : sizes()) {
    Generator generator(7);
    const auto numbers = [&](const Shape& shape) { return randint(-1, 2, shape, generator).to(DType::float32); };
    const Tensor x = numbers(of.x), weight = numbers(of.weight);
    INFO(of.x << " by " << of.weight);
    const Tensor g = [&] {
      const Device reference{"sequential"};
      const NoGrad none;
      return numbers(op::conv2d(x, weight, {}, of.options).shape());
    }();
    const std::vector<double> expected = [&] {
      const Device reference{"sequential"};
      return gradient(of, x, weight, g).values();
    }();
    for (const Precision precision : {Precision::strict, Precision::tf32}) {
      const Device device{"cuda", {.precision = precision}};
      const ForcedAlgorithm implicit("conv2d_grad_x", "implicit");
      CHECK(gradient(of, x, weight, g).values() == expected);
      CHECK(implicit.taken() > 0);
    }
  }
}
