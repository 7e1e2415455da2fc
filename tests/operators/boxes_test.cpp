// Products whose factors the copy engine of a card brings ("boxes"), of 16 and 8 bits, by every tile and with every
// number of blocks that share a sum.

#include "operators/every_plan.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

struct Sizes {
  Shape x;
  std::int64_t O;
  std::int64_t kernel;
  op::Conv2dOptions options;
  std::int64_t x_zero = 0;
};
/// Whole and half lines of shared memory, taps that end within one, windows over every edge, and few channels.
const std::vector<Sizes>& sizes() {
  static const std::vector<Sizes> all{{{2, 16, 9, 11}, 32, 3, {.stride = 2, .padding = 1}},
                                      {{1, 64, 7, 7}, 64, 3, {.padding = 1}},
                                      {{3, 144, 5, 6}, 48, 1, {}, 9},
                                      {{1, 32, 12, 13}, 160, 5, {.padding = 2, .dilation = 2}},
                                      {{1, 256, 3, 3}, 64, 3, {.padding = 1}},
                                      {{2, 192, 8, 9}, 128, 1, {.stride = 2}, 200},
                                      {{1, 96, 15, 14}, 96, 3, {.stride = 2, .padding = 1}},
                                      {{2, 3, 23, 22}, 64, 7, {.stride = 2, .padding = 3}, 7},
                                      {{3, 3, 20, 17}, 32, 3, {.stride = 2, .padding = 1}, 120},
                                      {{1, 3, 9, 10}, 64, 3, {.padding = 1}, 3},
                                      {{1, 1, 28, 28}, 16, 5, {}, 1},
                                      {{22, 16, 61, 60}, 128, 1, {}, 77},  // more tiles than run at once
                                      {{6, 64, 57, 56}, 96, 3, {.padding = 1}}};
  return all;
}

}  // namespace

TEST_CASE("boxes: 8 bits by every tile have the bits of the reference", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  for (const Sizes& each : sizes())
    for (const bool adds : {false, true}) {
      Generator generator(7);
      const Shape kernel{each.O, each.kernel, each.kernel, each.x[1]};
      const Tensor x = randint(0, 256, each.x, generator).to(DType::uint8),
                   weight = op::sub(randint(0, 255, kernel, generator), 127).to(DType::int8),
                   bias = randint(-20000, 20000, {each.O}, generator).to(DType::int32);
      const Tensor scale = op::mul(op::add(rand({each.O}, generator), 0.5), 1e-4);
      op::QuantizedConv2dOptions options{.stride = each.options.stride,
                                         .padding = each.options.padding,
                                         .dilation = each.options.dilation,
                                         .x_zero = each.x_zero,
                                         .zero = 120};
      Tensor other;
      std::vector<double> expected, real;
      const auto stored = [&] { return op::quantized_conv2d(x, weight, bias, scale, other, options).values(); };
      const auto floats = [&] {
        op::QuantizedConv2dOptions to_float = options;
        to_float.dtype = DType::float32, to_float.zero = 0;
        return op::quantized_conv2d(x, weight, bias, scale, {}, to_float).values();
      };
      {
        const Device reference{"sequential"};
        if (adds) {
          const Shape result = op::quantized_conv2d(x, weight, bias, scale, {}, options).shape();
          other = randint(0, 256, result, generator).to(DType::uint8);
          options.other_zero = 130, options.other_scale = 0.37;
        }
        expected = stored();
        if (!adds) real = floats();
      }
      const Device device{"cuda"};
      const ForcedAlgorithm boxes("quantized_conv2d", "boxes");
      INFO(each.x << " by " << kernel << (adds ? " with a sum" : ""));
      by_every_plan({"32x32", "32x64", "64x32", "64x64", "128x64", "128x128"}, [&] { CHECK(stored() == expected); });
      if (!adds) CHECK(floats() == real);
      CHECK(boxes.taken() > 0);
    }
}

TEST_CASE("boxes: 16 bits by every tile agree with float32", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  const NoGrad none;
  for (const DType dtype : {DType::bfloat16, DType::float16})
    for (const Sizes& each : sizes()) {
      if (each.x[1] % 32 != 0) continue;  // a stage ends with a tap
      Generator generator(5);
      const Shape kernel{each.O, each.x[1], each.kernel, each.kernel};
      const Tensor x = randn(each.x, generator).to(dtype), weight = randn(kernel, generator).to(dtype),
                   bias = randn({each.O}, generator).to(dtype);
      const auto wide = [](const Tensor& t) { return t.to(DType::float32); };
      const Tensor sums = op::conv2d(wide(x), wide(weight), wide(bias), each.options);
      const Tensor added = randn(sums.shape(), generator).to(dtype);
      const std::vector<double> expected = op::relu6(sums).values(),
                                both = op::relu(op::add(sums, wide(added))).values();
      const double allowed = allowed_distance(sums, dtype);
      const Device device{"cuda"};
      const ForcedAlgorithm boxes("conv2d", "implicit");
      INFO(dtype << " " << each.x << " by " << each.O << " of " << each.kernel);
      by_every_plan({"32x32", "32x64", "64x32", "64x64", "128x64", "128x128"}, [&] {
        op::Conv2dOptions activated = each.options;
        activated.activation = Activation::relu6;
        CHECK(distance(op::conv2d(x, weight, bias, activated), expected) <= allowed);
        activated.activation = Activation::relu;
        CHECK(distance(op::conv2d_add(x, weight, bias, added, activated), both) <= 2 * allowed);
      });
      CHECK(boxes.taken() > 0);
    }
}
