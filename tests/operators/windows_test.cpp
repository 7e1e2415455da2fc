// Convolutions on cuda as products of windows that are written out: in groups, channels last, and the gradients of few
// input channels, channels first. Whole numbers, whose sums strict float32 and TF32 have exactly.

#include "operators/every_plan.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

/// Inputs and the gradient of y, and what mode "sequential" computes from them.
struct Case {
  ConvSizes of;
  std::vector<Tensor> inputs;
  Tensor g;
  std::vector<std::vector<double>> expected;

  explicit Case(const ConvSizes& sizes) : of(sizes) {
    Generator generator(11);
    const auto numbers = [&](const Shape& shape) { return randint(-1, 2, shape, generator).to(DType::float32); };
    for (const Shape& shape : {of.x, of.weight, Shape{of.weight[0]}}) inputs.push_back(numbers(shape));
    const Device device{"sequential"};
    g = numbers(op::conv2d(inputs[0], inputs[1], inputs[2], of.options).shape());
    expected = results();
  }

  /// y, and the gradients of x, weight and bias.
  std::vector<std::vector<double>> results() const {
    std::vector<Tensor> own;
    for (const Tensor& input : inputs) own.push_back(input.clone().set_requires_grad());
    const Tensor y = op::conv2d(own[0], own[1], own[2], of.options);
    y.backward(g);
    std::vector<std::vector<double>> all{y.values()};
    for (const Tensor& input : own) all.push_back(input.grad().values());
    return all;
  }
};

}  // namespace

TEST_CASE("products of windows: gradients of few input channels are exact", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  // Rows of windows that are whole lanes and that are not, planes likewise, one image, strides, dilations and padding,
  // and a layer for which they are chosen.
  const ConvSizes all[]{{{3, 1, 28, 28}, {70, 1, 7, 7}, {.stride = 2, .padding = 3}},
                        {{1, 4, 10, 10}, {24, 4, 3, 3}, {.padding = 1}},
                        {{2, 3, 9, 12}, {17, 3, 2, 3}, {.stride = {2, 3}, .padding = {1, 2}}},
                        {{2, 2, 11, 8}, {12, 2, 3, 3}, {.stride = 2, .padding = 4, .dilation = 3}},
                        {{2, 8, 7, 7}, {37, 8, 3, 3}, {.padding = 1}},
                        {{1, 1, 8, 8}, {65, 1, 5, 5}, {.stride = 3}},
                        {{32, 1, 28, 28}, {200, 1, 7, 7}, {.stride = 2, .padding = 3}}};
  for (const ConvSizes& of : all) {
    const Case one(of);
    const std::int64_t area = one.g.size(2) * one.g.size(3);
    for (const Precision precision : {Precision::strict, Precision::tf32}) {
      INFO(of.x << " by " << of.weight << ", precision " << static_cast<int>(precision));
      const Device device{"cuda", {.precision = precision}};
      const ForcedAlgorithm forward("conv2d", "general"), image("conv2d_grad_x", "fold"),
          weight("conv2d_grad_weight", "product");
      CHECK(one.results() == one.expected);
      if (precision == Precision::tf32 && area % 4 != 0) continue;
      CHECK(image.taken() == 1);
      CHECK(weight.taken() == 1);
    }
  }
}

TEST_CASE("products of windows: groups are exact", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  const ConvSizes all[]{
      {{2, 24, 9, 7}, {40, 12, 3, 3}, {.stride = 2, .padding = 1, .groups = 2, .activation = Activation::relu}},
      {{1, 32, 7, 7}, {32, 8, 5, 5}, {.padding = 2, .groups = 4}},
      {{3, 136, 5, 6}, {24, 68, 3, 3}, {.padding = 2, .dilation = 2, .groups = 2}}};
  for (const ConvSizes& of : all) {
    const Case one(of);
    INFO(of.x << " by " << of.weight);
    const Device device{"cuda", {.precision = Precision::tf32}};
    const ForcedAlgorithm product("conv2d", "product");
    CHECK(one.results() == one.expected);
    CHECK(product.taken() == 1);
  }
}
