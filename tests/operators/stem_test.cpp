// Convolutions of 16 bits with few input channels on cuda, whose windows are read from rows in shared memory: against
// float32.

#include "operators/every_plan.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

/// Rows of whole 16 bytes and others, even and odd distances of windows, even and odd padding, tiles that end within a
/// row, several tiles of an image, and outputs that fill no tile.
const std::vector<ConvSizes>& sizes() {
  static const std::vector<ConvSizes> all{{{3, 3, 64, 64}, {64, 3, 7, 7}, {.stride = 2, .padding = 3}},
                                          {{2, 3, 67, 45}, {24, 3, 7, 7}, {.stride = 2, .padding = 3}},
                                          {{2, 3, 56, 40}, {64, 3, 3, 3}, {.padding = 1}},
                                          {{2, 3, 33, 35}, {32, 3, 3, 3}, {.stride = 2, .padding = 1}},
                                          {{2, 3, 131, 131}, {64, 3, 11, 11}, {.stride = 4, .padding = 2}},
                                          {{1, 3, 99, 64}, {96, 3, 11, 11}, {.stride = 4}},
                                          {{5, 1, 28, 28}, {8, 1, 5, 5}, {.padding = 2}},
                                          {{1, 2, 30, 300}, {136, 2, 5, 5}, {.padding = {0, 4}}},
                                          {{2, 4, 32, 32}, {72, 4, 3, 3}, {.padding = 1}},
                                          {{1, 4, 50, 51}, {128, 4, 7, 7}, {.stride = {3, 2}, .padding = {5, 2}}},
                                          {{1, 3, 20, 24}, {40, 3, 4, 2}, {.stride = {1, 3}, .padding = 1}},
                                          {{1, 3, 9, 8}, {16, 3, 1, 1}, {}}};
  return all;
}

struct Numbers {
  Tensor x, weight, bias;
  Numbers(const ConvSizes& of, DType dtype, Generator& generator)
      : x(randn(of.x, generator).to(dtype)),
        weight(randn(of.weight, generator).to(dtype)),
        bias(randn({of.weight[0]}, generator).to(dtype)) {}
};
Tensor wide(const Tensor& t) { return t.to(DType::float32); }

/// The gradient of the weight, in float32 for a weight of float32.
Tensor gradient(const Tensor& x, const Tensor& weight, const Tensor& g, const op::Conv2dOptions& options) {
  const Tensor leaf = weight.clone().set_requires_grad();
  const Tensor y = op::conv2d(x, leaf, {}, options);
  y.backward(g.to(y.dtype()));
  return leaf.grad();
}

/// The places whose numbers are finite.
std::vector<bool> finite(const Tensor& t) {
  std::vector<bool> are;
  for (const double value : t.values()) are.push_back(std::isfinite(value));
  return are;
}

}  // namespace

TEST_CASE("stem: convolutions of few input channels agree with float32", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  const NoGrad none;
  for (const DType dtype : {DType::bfloat16, DType::float16})
    for (const ConvSizes& each : sizes()) {
      Generator generator(5);
      const Numbers in(each, dtype, generator);
      const Tensor sums = op::conv2d(wide(in.x), wide(in.weight), wide(in.bias), each.options);
      const Tensor plain = op::conv2d(wide(in.x), wide(in.weight), {}, each.options);
      const std::vector<double> relu = op::relu(sums).values(), relu6 = op::relu6(sums).values();
      const double allowed = allowed_distance(sums, dtype);
      const Device device{"cuda"};
      const ForcedAlgorithm stem("conv2d", "direct_tensor");
      INFO(dtype << " " << each.x << " by " << each.weight);
      op::Conv2dOptions activated = each.options;
      CHECK(distance(op::conv2d(in.x, in.weight, {}, activated), plain.values()) <= allowed);
      activated.activation = Activation::relu;
      CHECK(distance(op::conv2d(in.x, in.weight, in.bias, activated), relu) <= allowed);
      activated.activation = Activation::relu6;
      CHECK(distance(op::conv2d(in.x, in.weight, in.bias, activated), relu6) <= allowed);
      CHECK(stem.taken() == 3);
    }
}

TEST_CASE("stem: slices of a joined tensor", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  const NoGrad none;
  Generator generator(6);
  const ConvSizes wider{{2, 3, 30, 40}, {64, 3, 5, 5}, {.padding = 2}},
      narrower{wider.x, {24, 3, 3, 3}, {.padding = 1}};
  const Numbers first(wider, DType::bfloat16, generator), second(narrower, DType::bfloat16, generator);
  const Tensor sums = op::cat({op::conv2d(wide(first.x), wide(first.weight), wide(first.bias), wider.options),
                               op::conv2d(wide(first.x), wide(second.weight), {}, narrower.options)},
                              1);
  const std::vector<double> expected = sums.values();
  const Device device{"cuda"};
  const ForcedAlgorithm stem("conv2d", "direct_tensor");
  const Tensor joined = op::conv2d_cat(
      {{first.x, first.weight, first.bias, wider.options}, {first.x, second.weight, {}, narrower.options}});
  CHECK(distance(joined, expected) <= allowed_distance(sums, DType::bfloat16));
  CHECK(stem.taken() == 2);
}

TEST_CASE("stem: gradients of the weight agree with float32", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  for (const DType dtype : {DType::bfloat16, DType::float16})
    for (const ConvSizes& each : sizes()) {
      Generator generator(7);
      const Numbers in(each, dtype, generator);
      const Shape result = op::conv2d(wide(in.x), wide(in.weight), {}, each.options).shape();
      const Tensor g = randn(result, generator).to(dtype);
      const Tensor expected = gradient(wide(in.x), wide(in.weight), wide(g), each.options);
      INFO(dtype << " " << each.x << " by " << each.weight);
      {
        const Device device{"cuda"};
        const ForcedAlgorithm stem("conv2d_grad_weight", "direct_tensor");
        const Tensor found = gradient(in.x, in.weight, g, each.options);
        CHECK(distance(found, expected.values()) <= allowed_distance(expected, dtype));
        CHECK(gradient(in.x, in.weight, g, each.options).values() == found.values());
        CHECK(stem.taken() == 2);
      }
      // Weights and their gradients are float32, images and y's gradient are not.
      const Device mixed{"cuda", {.precision = dtype == DType::bfloat16 ? Precision::bf16 : Precision::f16}};
      const ForcedAlgorithm stem("conv2d_grad_weight", "direct_tensor");
      const Tensor found = gradient(wide(in.x), wide(in.weight), wide(g), each.options);
      CHECK(found.dtype() == DType::float32);
      CHECK(distance(found, expected.values()) <= allowed_distance(expected, DType::float16) / 100);
      CHECK(stem.taken() == 1);
    }
}

TEST_CASE("stem: an infinite pixel reaches its own windows alone", "[operators][algorithms][cuda]") {
  if (!has_cuda()) return;
  for (const ConvSizes& each : sizes()) {
    if (each.x[1] != 3) continue;
    Generator generator(8);
    Numbers in(each, DType::bfloat16, generator);
    const std::int64_t H = each.x[2], W = each.x[3];
    std::vector<double> values = in.x.values();
    values[static_cast<std::size_t>((H / 2) * W + W - 1)] = std::numeric_limits<double>::infinity();
    in.x = tensor(values, each.x).to(DType::bfloat16);
    const Tensor y = op::conv2d(wide(in.x), wide(in.weight), {}, each.options);
    const Tensor g = randn(y.shape(), generator).to(DType::bfloat16);
    const std::vector<bool> of_y = finite(y),
                            of_weight = finite(gradient(wide(in.x), wide(in.weight), wide(g), each.options));
    const Device device{"cuda"};
    const ForcedAlgorithm forward("conv2d", "direct_tensor"), backward("conv2d_grad_weight", "direct_tensor");
    INFO(each.x << " by " << each.weight);
    CHECK(finite(op::conv2d(in.x, in.weight, {}, each.options)) == of_y);
    CHECK(finite(gradient(in.x, in.weight, g, each.options)) == of_weight);
    CHECK(backward.taken() == 1);
  }
}

TEST_CASE("copies: images of a few planes become channels last", "[operators][cuda]") {
  if (!has_cuda()) return;
  for (const DType dtype : {DType::bfloat16, DType::float32, DType::float64, DType::uint8})
    for (const Shape& shape :
         {Shape{3, 3, 16, 8}, Shape{2, 3, 7, 9}, Shape{5, 2, 4, 4}, Shape{2, 4, 12, 6}, Shape{1, 3, 40, 40}}) {
      Generator generator(9);
      const Tensor x = randint(0, 200, shape, generator).to(dtype);
      const auto turned = [](const Tensor& t) { return t.permute({0, 2, 3, 1}).contiguous().values(); };
      const std::vector<double> expected = turned(x), part = turned(x.slice(2, 1, 4)), later = turned(x.slice(0, 1));
      const Device device{"cuda"};
      INFO(dtype << " " << shape);
      CHECK(turned(x) == expected);
      CHECK(turned(x.slice(2, 1, 4)) == part);
      CHECK(turned(x.slice(0, 1)) == later);
    }
}
