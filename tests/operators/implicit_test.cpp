// Implicit products of 16 and 8 bits on cuda, by every tile and with every number of blocks that share a sum: other
// sizes than the catalogue's, with sums of several stages and edges in every direction.

#include "operators/every_plan.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

const std::vector<ConvSizes>& sizes() {
  static const std::vector<ConvSizes> all{{{2, 16, 9, 11}, {24, 16, 3, 3}, {.stride = 2, .padding = 1}},
                                          {{1, 64, 7, 7}, {72, 64, 3, 3}, {.padding = 1}},
                                          {{3, 136, 5, 6}, {8, 136, 1, 1}, {}},
                                          {{1, 8, 12, 13}, {136, 8, 5, 5}, {.padding = 2, .dilation = 2}},
                                          {{2, 3, 23, 22}, {16, 3, 7, 7}, {.stride = 2, .padding = 3}},
                                          {{1, 512, 3, 3}, {64, 512, 3, 3}, {.padding = 1}}};
  return all;
}

}  // namespace

TEST_CASE("implicit products: 16 bits by every tile agree with float32", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  const NoGrad none;
  for (const DType dtype : {DType::bfloat16, DType::float16})
    for (const ConvSizes& each : sizes()) {
      Generator generator(5);
      const Tensor x = randn(each.x, generator).to(dtype), weight = randn(each.weight, generator).to(dtype),
                   bias = randn({each.weight[0]}, generator).to(dtype);
      const auto wide = [](const Tensor& t) { return t.to(DType::float32); };
      op::Conv2dOptions plain = each.options;
      const Tensor sums = op::conv2d(wide(x), wide(weight), wide(bias), plain);
      const Tensor added = randn(sums.shape(), generator).to(dtype);
      const std::vector<double> expected = op::relu(sums).values(),
                                both = op::relu(op::add(sums, wide(added))).values();
      const double allowed = allowed_distance(sums, dtype);
      const Device device{"cuda"};
      const ForcedAlgorithm implicit("conv2d", "implicit");
      INFO(dtype << " " << each.x << " by " << each.weight);
      by_every_plan({"64x32", "64x64", "128x64", "128x128"}, [&] {
        op::Conv2dOptions activated = each.options;
        activated.activation = Activation::relu;
        CHECK(distance(op::conv2d(x, weight, bias, activated), expected) <= allowed);
        CHECK(distance(op::conv2d_add(x, weight, bias, added, activated), both) <= 2 * allowed);
      });
      CHECK(implicit.taken() > 0);
    }
}

TEST_CASE("implicit products: 8 bits by every tile have the bits of the reference", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  for (const ConvSizes& each : sizes()) {
    Generator generator(6);
    const Shape kernel{each.weight[0], each.weight[2], each.weight[3], each.weight[1]};
    const Tensor x = randint(0, 256, each.x, generator).to(DType::uint8),
                 weight = op::sub(randint(0, 255, kernel, generator), 127).to(DType::int8),
                 bias = randint(-20000, 20000, {kernel[0]}, generator).to(DType::int32);
    const Tensor scale = full({kernel[0]}, 1e-4);
    const op::QuantizedConv2dOptions options{.stride = each.options.stride,
                                             .padding = each.options.padding,
                                             .dilation = each.options.dilation,
                                             .x_zero = 7,
                                             .zero = 120};
    const auto run = [&] { return op::quantized_conv2d(x, weight, bias, scale, {}, options).values(); };
    std::vector<double> expected;
    {
      const Device reference{"sequential"};
      expected = run();
    }
    const Device device{"cuda"};
    INFO(each.x << " by " << kernel);
    by_every_plan({"64x32", "64x64", "128x64", "128x128"}, [&] { CHECK(run() == expected); });
  }
}
