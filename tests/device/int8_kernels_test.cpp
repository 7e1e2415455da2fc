// Products of stored numbers by every instruction set that the processor has, beside the reference: one result.

#include <limits>
#include <random>

#include "support/catch.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/tern.hpp"
#include "vectorized/quantized/kernels.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Random = std::mt19937;

std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

/// A zero point, which is 0 as often as not, as behind a relu.
std::int64_t zero(Random& random) { return draw(random, 0, 1) == 0 ? 0 : draw(random, 0, 255); }

Tensor numbers(Random& random, const Shape& shape, DType dtype, std::int64_t low, std::int64_t high) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(element_count(shape)));
  for (std::int32_t& value : values) value = static_cast<std::int32_t>(draw(random, low, high));
  return tensor(values, shape).to(dtype);
}

struct Layer {
  Tensor x, weight, bias, scale, other;
  op::QuantizedConv2dOptions options;

  Tensor run(const char* mode, int threads = 0) const {
    const Device device{mode, {.threads = threads}};
    return op::quantized_conv2d(x, weight, bias, scale, other, options);
  }
};

/// Scales whose results fit, leave int32, are NaN or negative.
double factor(Random& random) {
  constexpr double factors[]{1, 1, 1, 1e8, std::numeric_limits<double>::quiet_NaN(), -1};
  return factors[draw(random, 0, 5)];
}

/// Bounds of stored results, of which the zero is one as often as not.
void draw_bounds(Random& random, op::QuantizedConv2dOptions& options) {
  if (draw(random, 0, 1) == 0) return;
  options.low = static_cast<double>(draw(random, 0, 1) == 0 ? options.zero : draw(random, 0, 255));
  options.high = static_cast<double>(draw(random, static_cast<std::int64_t>(*options.low), 255));
}

Layer drawn(Random& random) {
  const bool depthwise = draw(random, 0, 3) == 0;
  const std::int64_t groups = depthwise ? draw(random, 2, 140) : draw(random, 0, 4) == 0 ? 2 : 1;
  const std::int64_t inputs = depthwise ? 1 : draw(random, 1, 70), outputs = depthwise ? 1 : draw(random, 1, 70);
  const std::int64_t KH = draw(random, 1, 5), KW = draw(random, 1, 5), O = groups * outputs;
  op::QuantizedConv2dOptions o{.stride = {draw(random, 1, 2), draw(random, 1, 2)},
                               .padding = {draw(random, 0, 2), draw(random, 0, 2)},
                               .dilation = {draw(random, 1, 2), draw(random, 1, 2)},
                               .groups = groups,
                               .x_zero = draw(random, 0, 255),
                               .zero = zero(random)};
  const std::int64_t least = 1 + o.dilation.w * (KW - 1), most = draw(random, 0, 2) == 0 ? 10 : 40;
  const std::int64_t H = draw(random, 1 + o.dilation.h * (KH - 1), 20), W = draw(random, least, most);
  Generator generator(random());
  Layer layer{numbers(random, {draw(random, 1, 3), groups * inputs, H, W}, DType::uint8, 0, 255),
              numbers(random, {O, KH, KW, inputs}, DType::int8, -127, 127),
              numbers(random, {O}, DType::int32, -30000, 30000),
              op::mul(rand({O}, generator), factor(random) / (700 * std::sqrt(static_cast<double>(inputs * KH * KW)))),
              {},
              o};
  if (draw(random, 0, 2) == 0) {
    layer.other = numbers(random, layer.run("sequential").shape(), DType::uint8, 0, 255);
    layer.options.other_zero = zero(random);
    layer.options.other_scale = draw(random, 0, 3) == 0 ? 1e9 : 0.61;
  } else if (draw(random, 0, 2) == 0) {
    layer.options.dtype = DType::float32;
    return layer;
  }
  draw_bounds(random, layer.options);
  return layer;
}

/// As the first layer of a network.
Layer drawn_first(Random& random) {
  const std::int64_t C = draw(random, 1, 5), O = draw(random, 1, 40), KH = draw(random, 1, 7), KW = draw(random, 1, 7);
  const op::QuantizedConv2dOptions o{.stride = {draw(random, 1, 4), draw(random, 1, 4)},
                                     .padding = {draw(random, 0, 4), draw(random, 0, 4)},
                                     .x_zero = draw(random, 0, 255),
                                     .zero = zero(random)};
  Generator generator(random());
  return {numbers(random, {draw(random, 1, 3), C, draw(random, KH, 30), draw(random, KW, 60)}, DType::uint8, 0, 255),
          numbers(random, {O, KH, KW, C}, DType::int8, -127, 127),
          numbers(random, {O}, DType::int32, -30000, 30000),
          op::mul(rand({O}, generator), 1.0 / (700 * std::sqrt(static_cast<double>(C * KH * KW)))),
          {},
          o};
}

/// A product: few positions or many.
Layer drawn_points(Random& random) {
  const std::int64_t C = draw(random, 1, 200), O = draw(random, 1, 100);
  const op::QuantizedConv2dOptions o{.x_zero = draw(random, 0, 255), .zero = zero(random)};
  Generator generator(random());
  return {numbers(random, {draw(random, 1, 20), C, draw(random, 1, 3), draw(random, 1, 20)}, DType::uint8, 0, 255),
          numbers(random, {O, 1, 1, C}, DType::int8, -127, 127),
          numbers(random, {O}, DType::int32, -30000, 30000),
          op::mul(rand({O}, generator), 1.0 / (700 * std::sqrt(static_cast<double>(C)))),
          {},
          o};
}

/// 3 x 3 with weights of any size: the largest ones, all of one sign, leave the range in which Winograd's is exact.
Layer drawn_squares(Random& random) {
  const std::int64_t C = draw(random, 1, 80), O = draw(random, 1, 40), least = draw(random, 0, 3) == 0 ? 127 : -128;
  const op::QuantizedConv2dOptions o{
      .padding = {draw(random, 0, 3), draw(random, 0, 3)}, .x_zero = draw(random, 0, 255), .zero = zero(random)};
  Generator generator(random());
  return {numbers(random, {draw(random, 1, 3), C, draw(random, 3, 20), draw(random, 3, 20)}, DType::uint8,
                  draw(random, 0, 1) * 255, 255),
          numbers(random, {O, 3, 3, C}, DType::int8, least, 127),
          numbers(random, {O}, DType::int32, -30000, 30000),
          op::mul(rand({O}, generator), 1.0 / (700 * std::sqrt(static_cast<double>(C * 9)))),
          {},
          o};
}

struct Chosen {
  explicit Chosen(const vectorized::int8::Kernels* kernels) { vectorized::int8::force_kernels(kernels); }
  ~Chosen() { vectorized::int8::force_kernels(nullptr); }
};

}  // namespace

TEST_CASE("int8 kernels: every instruction set gives the integers of the reference", "[device][int8]") {
  Random random(5);
  int sets = 0;
  for (auto* const* kernels = vectorized::int8::all_kernels(); *kernels != nullptr; ++kernels) ++sets;
  REQUIRE(sets > 0);
  constexpr Layer (*draws[])(Random&){drawn, drawn_first, drawn_points, drawn_squares};
  for (int i = 0; i < 280; ++i) {
    const Layer layer = draws[i % 4](random);
    const std::vector<double> expected = layer.run("sequential").values();
    for (auto* const* kernels = vectorized::int8::all_kernels(); *kernels != nullptr; ++kernels) {
      const Chosen chosen(*kernels);
      INFO("case " << i << ", " << (*kernels)->name << ": " << layer.x.shape() << " by " << layer.weight.shape());
      CHECK(layer.run("vectorized").values() == expected);
      CHECK(layer.run("vectorized", 3).values() == expected);
    }
  }
}

TEST_CASE("int8 kernels: Winograd's convolution has the integers of the reference", "[device][int8]") {
  if (vectorized::int8::winograd_kernels() == nullptr) return;
  Random random(6);
  const ForcedAlgorithm forced("quantized_conv2d", "winograd");
  for (int i = 0; i < 80; ++i) {
    const Layer layer = drawn_squares(random);
    INFO("case " << i << ": " << layer.x.shape() << " by " << layer.weight.shape());
    const std::vector<double> expected = layer.run("sequential").values();
    CHECK(layer.run("vectorized").values() == expected);
    CHECK(layer.run("vectorized", 3).values() == expected);
  }
  CHECK(forced.taken() > 0);
  CHECK(forced.missed() == 0);
}

TEST_CASE("int8 kernels: Winograd's convolution leaves weights whose sums it cannot hold", "[device][int8]") {
  if (vectorized::int8::winograd_kernels() == nullptr) return;
  for (const auto& [C, takes] :
       {std::pair{115, true}, {116, false}}) {  // 9 * 127 * 115 = 131,445, 2^25 / 255 = 131,586
    const std::int64_t channels = C;
    const Layer layer{full({1, channels, 5, 5}, 255, DType::uint8),
                      full({4, 3, 3, channels}, 127, DType::int8),
                      zeros({4}, DType::int32),
                      full({4}, 1e-6),
                      {},
                      {.padding = 1}};
    const std::vector<double> expected = layer.run("sequential").values();
    const ForcedAlgorithm forced("quantized_conv2d", "winograd");
    CHECK(layer.run("vectorized").values() == expected);
    CHECK((forced.taken() > 0) == takes);
  }
}
