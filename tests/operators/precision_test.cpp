// Products under each precision: close to strict float32 by the width of their factors, gradients of weights in
// float32, and so is what is stored, but in mixed precision.

#include <cmath>
#include <memory>
#include <optional>
#include <string_view>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/operators/operators.hpp"

namespace {

using namespace tern;
namespace op = tern::operators;

// The distance of two tensors, relative to the size of the second.
double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.values(), y = b.values();
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    apart += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(apart / size);
}

using Call = Tensor (*)(const std::vector<Tensor>&);

// The output and the gradients of all inputs, whose elements are rounded to `rounded` and have the type `dtype`.
std::vector<Tensor> run(const std::string& mode, Precision precision, bool deterministic,
                        const std::vector<Shape>& shapes, Call call, DType rounded = DType::float32,
                        DType dtype = DType::float32) {
  const Device device{mode, {.precision = precision, .deterministic = deterministic}};
  Generator generator{7};
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes) inputs.push_back(randn(shape, generator).to(rounded).to(dtype).set_requires_grad());
  Tensor out = call(inputs);
  op::sum(op::mul(out, out)).backward();
  std::vector<Tensor> results{out.detach()};
  for (const Tensor& input : inputs) results.push_back(input.grad());
  return results;
}

struct Conv2dCase {
  Shape x, weight;
  op::Conv2dOptions options;
};

/// A convolution and its gradients by one algorithm on tensor cores, for each dtype, against strict float32.
void check_forced(const std::string& mode, const char* algorithm, const Shape& x, const Shape& weight, bool bias,
                  const op::Conv2dOptions& options) {
  struct As {
    DType dtype;
    Precision precision;
    double most;  // the distance of results
  };
  constexpr As all[]{{DType::float32, Precision::tf32, 2e-3},
                     {DType::bfloat16, Precision::tf32, 1e-2},
                     {DType::float16, Precision::tf32, 2e-3}};
  for (const auto& [dtype, precision, most] : all) {
    INFO(algorithm << ", dtype " << static_cast<int>(dtype) << ", precision " << static_cast<int>(precision));
    const auto convolve = [&, rounded = dtype](Precision as, DType of) {
      const Device device{mode, {.precision = as}};
      Generator generator{7};
      std::vector<Tensor> inputs;
      for (const Shape& shape : {x, weight, Shape{weight[0]}})
        inputs.push_back(randn(shape, generator).to(rounded).to(of).set_requires_grad());
      const Tensor y = op::conv2d(inputs[0], inputs[1], bias ? inputs[2] : Tensor{}, options);
      op::sum(op::mul(y, y)).backward();
      std::vector<Tensor> results{y.detach(), inputs[0].grad(), inputs[1].grad()};
      if (bias) results.push_back(inputs[2].grad());
      return results;
    };
    const std::vector<Tensor> strict = convolve(Precision::strict, DType::float32);
    const Device device{mode};  // whose algorithms are forced
    const ForcedAlgorithm forward("conv2d", algorithm), to_x("conv2d_grad_x", algorithm),
        to_weight("conv2d_grad_weight", algorithm);
    const std::vector<Tensor> found = convolve(precision, dtype);
    for (std::size_t i = 0; i < strict.size(); ++i) {
      INFO("result " << i);
      CHECK(distance(found[i].to(DType::float32), strict[i]) < most);
    }
    CHECK(forward.taken() == 1);
    CHECK(to_x.taken() == 1);
    CHECK(to_weight.taken() == 1);
  }
}

}  // namespace

TEST_CASE("products keep to the precision of the scope", "[precision]") {
  struct Case {
    const char* name;
    std::vector<Shape> shapes;
    Call call;
  };
  const Case cases[]{
      {"matmul", {{64, 256}, {256, 48}}, [](const auto& in) { return op::matmul(in[0], in[1]); }},
      {"linear",
       {{64, 256}, {128, 256}, {128}},
       [](const auto& in) { return op::linear(in[0], in[1], in[2], Activation::relu); }},
      {"linear, odd sizes", {{31, 77}, {19, 77}, {19}}, [](const auto& in) { return op::linear(in[0], in[1], in[2]); }},
      {"conv2d",
       {{4, 32, 12, 12}, {64, 32, 3, 3}, {64}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 1, .activation = Activation::relu}); }},
      {"conv2d, groups",
       {{4, 32, 12, 12}, {64, 16, 5, 5}, {64}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 2, .groups = 2}); }},
      {"conv2d, first layer",
       {{2, 3, 47, 47}, {32, 3, 11, 11}, {32}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.stride = 4, .activation = Activation::relu}); }},
      {"conv2d, one element",
       {{4, 40, 12, 12}, {72, 40, 1, 1}, {72}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.activation = Activation::relu}); }},
      {"conv2d, stride and dilation",
       {{3, 24, 19, 17}, {96, 24, 3, 3}, {96}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.stride = 2, .padding = 3, .dilation = 2}); }},
      {"conv2d, more outputs than a tile",
       {{4, 16, 10, 9}, {200, 16, 3, 5}, {200}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = Pair(1, 2)}); }},
      {"conv2d, few outputs",
       {{4, 48, 13, 13}, {24, 48, 5, 5}, {24}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 2}); }},
      {"conv2d, many positions and few outputs",
       {{8, 16, 56, 56}, {32, 16, 3, 3}, {32}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 1}); }},
      {"conv2d, many positions and outputs",
       {{16, 16, 40, 40}, {128, 16, 1, 3}, {128}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.activation = Activation::relu}); }},
      {"conv2d_cat",
       {{4, 32, 12, 12}, {64, 32, 1, 1}, {64}, {40, 32, 3, 3}, {40}},
       [](const auto& in) {
         return op::conv2d_cat({{in[0], in[1], in[2], {.activation = Activation::relu}},
                                {in[0], in[3], in[4], {.padding = 1, .activation = Activation::relu}}});
       }},
      {"conv2d, one element, odd channels",
       {{3, 37, 12, 11}, {131, 37, 1, 1}, {131}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.activation = Activation::relu}); }},
      {"conv2d, one element, odd planes",
       {{2, 52, 7, 9}, {45, 52, 1, 1}, {45}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2]); }},
      {"conv2d, one element, many images and few channels",
       {{70, 11, 8, 8}, {21, 11, 1, 1}, {21}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.activation = Activation::tanh}); }},
      {"conv2d, long sums of few tiles",
       {{2, 24, 14, 14}, {301, 24, 7, 7}, {301}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 3}); }},
      {"conv2d, long sums of few positions",
       {{2, 256, 7, 7}, {324, 256, 5, 5}, {324}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.stride = 2, .padding = 2}); }},
      {"conv2d, groups of 24 channels",
       {{4, 48, 14, 14}, {48, 24, 5, 5}, {48}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 2, .groups = 2}); }},
      {"conv2d, groups of five channels",
       {{8, 20, 28, 28}, {20, 5, 3, 3}, {20}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 1, .groups = 4}); }},
      {"conv2d, one input channel",
       {{4, 1, 40, 37}, {70, 1, 5, 5}, {70}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.stride = 2, .activation = Activation::relu}); }},
      {"conv2d, one output",
       {{4, 70, 23, 21}, {1, 70, 3, 3}, {1}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 2, .dilation = 2}); }},
      {"conv2d, odd channels", {{2, 5, 9, 9}, {7, 5, 3, 3}, {7}}, [](const auto& in) {
         return op::conv2d(in[0], in[1], in[2]);
       }}};
  for (const std::string& mode : testing::available_modes()) {
    for (const Case& c : cases) {
      INFO(mode << ", " << c.name);
      const DType mixed = mode == "vectorized" ? DType::float32 : DType::bfloat16;
      const std::vector<Tensor> strict = run(mode, Precision::strict, true, c.shapes, c.call);
      for (const bool deterministic : {true, false}) {
        INFO("deterministic " << deterministic);
        const std::vector<Tensor> again = run(mode, Precision::strict, deterministic, c.shapes, c.call);
        const std::vector<Tensor> tf32 = run(mode, Precision::tf32, deterministic, c.shapes, c.call);
        const std::vector<Tensor> bf16 = run(mode, Precision::bf16, deterministic, c.shapes, c.call);
        for (std::size_t i = 0; i < strict.size(); ++i) {
          INFO("result " << i);
          CHECK(bf16[i].dtype() == (i == 0 ? mixed : DType::float32));
          CHECK(distance(again[i], strict[i]) < 1e-5);
          CHECK(distance(tf32[i], strict[i]) < 2e-3);
          CHECK(distance(bf16[i], strict[i]) < 2e-2);
        }
      }
    }
  }
}

TEST_CASE("products of rows that are no whole 16 bytes, by every algorithm for them", "[precision]") {
  struct Case {
    const char* name;
    std::vector<Shape> shapes;
    Call call;
    bool gemv = false;
  };
  const auto product = [](const auto& in) { return op::matmul(in[0], in[1]); };
  const Case cases[]{
      {"linear, odd sizes",
       {{31, 77}, {19, 77}, {19}},
       [](const auto& in) { return op::linear(in[0], in[1], in[2], Activation::gelu); }},
      {"linear, odd inputs",
       {{40, 301}, {64, 301}, {64}},
       [](const auto& in) { return op::linear(in[0], in[1], in[2], Activation::relu); }},
      {"linear, odd outputs", {{33, 64}, {70, 64}}, [](const auto& in) { return op::linear(in[0], in[1]); }},
      {"linear, odd outputs of many rows",
       {{301, 72}, {71, 72}, {71}},
       [](const auto& in) { return op::linear(in[0], in[1], in[2], Activation::relu); }},
      {"linear, whole outputs with a bias",
       {{301, 75}, {72, 75}, {72}},
       [](const auto& in) { return op::linear(in[0], in[1], in[2], Activation::relu); }},
      {"one row", {{1, 4099}, {37, 4099}, {37}}, [](const auto& in) { return op::linear(in[0], in[1], in[2]); }, true},
      {"two rows", {{2, 131}, {37, 131}}, [](const auto& in) { return op::linear(in[0], in[1]); }, true},
      {"three rows", {{3, 1030}, {5, 1030}, {5}}, [](const auto& in) { return op::linear(in[0], in[1], in[2]); }, true},
      {"products", {{3, 21, 18}, {3, 18, 13}}, product},
      {"products with one matrix", {{3, 21, 18}, {18, 13}}, product},
      {"products with transposed matrices", {{3, 21, 18}, {3, 13, 18}}, [](const auto& in) {
         return op::matmul(in[0], in[1], {.transpose_b = true});
       }}};
  for (const std::string& mode : testing::available_modes()) {
    if (mode != "cuda") continue;
    for (const Case& c : cases)
      for (const char* algorithm : {"padded", "gemv"}) {
        if (algorithm == std::string("gemv") && !c.gemv) continue;
        INFO(c.name << " by " << algorithm);
        const std::vector<Tensor> strict = run(mode, Precision::strict, true, c.shapes, c.call);
        const Device device{mode};  // whose algorithms are forced
        const ForcedAlgorithm linear("linear", algorithm), matmul("matmul", algorithm),
            backward("linear_backward", algorithm);
        const std::vector<Tensor> found = run(mode, Precision::tf32, true, c.shapes, c.call);
        for (std::size_t i = 0; i < strict.size(); ++i) CHECK(distance(found[i], strict[i]) < 2e-3);
        CHECK(linear.taken() + matmul.taken() > 0);
      }
  }
}

TEST_CASE("products of 16-bit rows that are no whole 16 bytes", "[precision]") {
  struct Case {
    const char* name;
    std::vector<Shape> shapes;
    Call call;
  };
  const auto product = [](const auto& in) { return op::matmul(in[0], in[1]); };
  const Case cases[]{
      {"linear, odd sizes",
       {{31, 77}, {19, 77}, {19}},
       [](const auto& in) { return op::linear(in[0], in[1], in[2], Activation::gelu); }},
      {"linear, fours of inputs",
       {{300, 76}, {64, 76}, {64}},
       [](const auto& in) { return op::linear(in[0], in[1], in[2], Activation::relu); }},
      {"linear, odd outputs of many rows",
       {{301, 72}, {71, 72}, {71}},
       [](const auto& in) { return op::linear(in[0], in[1], in[2], Activation::tanh); }},
      {"linear without a bias", {{129, 43}, {88, 43}}, [](const auto& in) { return op::linear(in[0], in[1]); }},
      {"products", {{3, 21, 18}, {3, 18, 13}}, product},
      {"products with transposed matrices", {{3, 21, 18}, {3, 13, 18}}, [](const auto& in) {
         return op::matmul(in[0], in[1], {.transpose_b = true});
       }}};
  for (const std::string& mode : testing::available_modes()) {
    if (mode != "cuda") continue;
    for (const Case& c : cases)
      for (const DType dtype : {DType::bfloat16, DType::float16})
        for (const char* algorithm : {"padded", "library"}) {
          INFO(c.name << " by " << algorithm << ", dtype " << static_cast<int>(dtype));
          const std::vector<Tensor> strict = run(mode, Precision::strict, true, c.shapes, c.call, dtype);
          const Device device{mode};  // whose algorithms are forced
          const ForcedAlgorithm linear("linear", algorithm), matmul("matmul", algorithm),
              backward("linear_backward", algorithm);
          const std::vector<Tensor> found = run(mode, Precision::strict, true, c.shapes, c.call, dtype, dtype);
          for (std::size_t i = 0; i < strict.size(); ++i) {
            INFO("result " << i);
            CHECK(distance(found[i].to(DType::float32), strict[i]) < (dtype == DType::bfloat16 ? 2e-2 : 2e-3));
          }
          CHECK(linear.taken() + matmul.taken() > 0);
          CHECK(matmul.taken() + backward.taken() > 0);
        }
  }
}

TEST_CASE("convolutions of one element by products of planes", "[precision]") {
  struct Case {
    const char* name;
    Shape x;
    std::int64_t outputs;
    bool bias;
    Activation activation;
  };
  const Case cases[]{{"whole inputs", {1, 24, 8, 12}, 45, true, Activation::relu},
                     {"whole outputs", {3, 29, 8, 8}, 16, true, Activation::none},
                     {"no whole lanes", {3, 29, 8, 8}, 19, true, Activation::gelu},
                     {"no whole lanes, more outputs", {2, 11, 4, 8}, 117, true, Activation::relu},
                     {"no whole lanes, one image", {1, 117, 16, 16}, 13, false, Activation::none},
                     {"no bias", {2, 24, 8, 8}, 21, false, Activation::relu},
                     {"no bias and no whole lanes", {2, 21, 8, 8}, 27, false, Activation::tanh}};
  for (const std::string& mode : testing::available_modes()) {
    if (mode != "cuda") continue;
    for (const Case& c : cases) {
      INFO(c.name);
      check_forced(mode, "planes", c.x, {c.outputs, c.x[1], 1, 1}, c.bias, {.activation = c.activation});
    }
  }
}

// By one algorithm the fused kernels take every sum in the order of the separate ones.
TEST_CASE("a pooled convolution has the bits of a convolution and a pooling", "[precision]") {
  const Conv2dCase cases[]{{{7, 1, 28, 28}, {20, 1, 5, 5}, {}},
                           {{5, 20, 12, 12}, {50, 20, 5, 5}, {.activation = Activation::relu}},
                           {{33, 10, 16, 16}, {20, 10, 3, 3}, {.padding = 1}},
                           {{210, 2, 16, 16}, {20, 2, 3, 3}, {.padding = 1}},  // outputs enough to be spread once
                           {{3, 3, 8, 6}, {4, 3, 3, 3}, {.activation = Activation::relu}},
                           {{2, 6, 12, 10}, {9, 6, 5, 5}, {.padding = {2, 0}}}};
  for (const std::string& mode : testing::available_modes())
    for (const Precision precision : {Precision::strict, Precision::tf32})
      for (const Conv2dCase& c : cases) {
        INFO(mode << ", precision " << static_cast<int>(precision) << ", " << c.x << " * " << c.weight);
        const Device device{mode, {.precision = precision}};
        std::vector<std::unique_ptr<ForcedAlgorithm>> algorithms;
        if (mode == "cuda") {
          for (const char* decision : {"conv2d", "conv2d_grad_x", "conv2d_grad_weight"})
            algorithms.push_back(std::make_unique<ForcedAlgorithm>(decision, "direct_tensor"));
          algorithms.push_back(std::make_unique<ForcedAlgorithm>("conv2d_max_pool2d", "fused"));
        }
        const auto run = [&](bool fused) {
          Generator generator{7};
          std::vector<Tensor> inputs;
          for (const Shape& shape : {c.x, c.weight, Shape{c.weight[0]}})
            inputs.push_back(randn(shape, generator).set_requires_grad());
          const Tensor& x = inputs[0];
          const Tensor out = fused ? op::conv2d_max_pool2d(x, inputs[1], inputs[2], c.options)
                                   : op::max_pool2d(op::conv2d(x, inputs[1], inputs[2], c.options), 2);
          op::sum(op::mul(out, out)).backward();
          return std::vector{out.values(), x.grad().values(), inputs[1].grad().values(), inputs[2].grad().values()};
        };
        CHECK(run(true) == run(false));
        // Where the card's tensor cores do not multiply such factors it is composed.
        if (mode == "cuda" && algorithms.back()->taken() == 0) WARN("cuda fused nothing");
      }
}

TEST_CASE("mixed precision: gradients of float32 weights and biases", "[precision]") {
  struct Case {
    const char* name;
    std::vector<Shape> shapes;
    Call call;
    bool exact;  // in cuda: not rounded to 16 bits
  };
  const auto linear = [](const auto& in) { return op::linear(in[0], in[1], in[2], Activation::relu); };
  const Case cases[]{
      {"linear, one row", {{1, 264}, {40, 264}, {40}}, linear, true},
      {"linear, three rows", {{3, 64}, {1000, 64}, {1000}}, linear, true},
      {"linear", {{96, 128}, {64, 128}, {64}}, linear, true},
      {"linear, odd sizes", {{31, 77}, {19, 77}, {19}}, linear, true},
      {"1x1",
       {{2, 32, 9, 9}, {48, 32, 1, 1}, {48}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.activation = Activation::relu}); },
       true},
      {"3x3",
       {{2, 32, 9, 9}, {48, 32, 3, 3}, {48}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 1}); },
       false},
      {"7x7, few channels, stride 2",
       {{2, 3, 23, 23}, {16, 3, 7, 7}, {16}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.stride = 2, .padding = 3}); },
       false},
      {"odd channels",
       {{2, 13, 9, 9}, {21, 13, 3, 3}, {21}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 1}); },
       false},
      {"groups",
       {{2, 32, 9, 9}, {32, 8, 3, 3}, {32}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 1, .groups = 4}); },
       false},
      {"two groups",
       {{2, 48, 9, 9}, {80, 24, 3, 3}, {80}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 1, .groups = 2}); },
       false},
      {"depthwise",
       {{2, 32, 9, 9}, {32, 1, 3, 3}, {32}},
       [](const auto& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 1, .groups = 32}); },
       false},
      {"side by side",
       {{2, 32, 9, 9}, {48, 32, 1, 1}, {48}, {16, 32, 1, 1}, {16}},
       [](const auto& in) {
         return op::conv2d_cat({{in[0], in[1], in[2], {}}, {in[0], in[3], in[4], {.activation = Activation::relu}}});
       },
       true}};
  for (const std::string& mode : testing::available_modes())
    for (const Precision precision : {Precision::bf16, Precision::f16})
      for (const Case& c : cases) {
        INFO(mode << ", precision " << static_cast<int>(precision) << ", " << c.name);
        const auto gradients = [&](bool leaves) {
          const Device device{mode, {.precision = precision}};
          Generator generator{7};
          std::vector<Tensor> inputs, used;
          for (const Shape& shape : c.shapes) inputs.push_back(randn(shape, generator).set_requires_grad());
          for (const Tensor& input : inputs) used.push_back(leaves || used.empty() ? input : op::mul(input, 1.0));
          op::mean(op::square(c.call(used).to(DType::float32))).backward();
          std::vector<Tensor> found;
          for (std::size_t i = 1; i < inputs.size(); ++i) found.push_back(inputs[i].grad());
          return found;
        };
        const std::vector<Tensor> found = gradients(true), rounded = gradients(false);
        for (std::size_t i = 0; i < found.size(); ++i) {
          REQUIRE(found[i].dtype() == DType::float32);
          CHECK(distance(found[i], rounded[i]) < (precision == Precision::bf16 ? 4e-3 : 5e-4));
          const Tensor back = found[i].to(precision == Precision::bf16 ? DType::bfloat16 : DType::float16);
          if (mode == "cuda" && c.exact && i % 2 == 0) CHECK(back.values() != found[i].values());  // weights
        }
      }
}

TEST_CASE("16 bits: a convolution in groups as separate convolutions", "[precision]") {
  struct Case {
    const char* name;
    std::int64_t groups, in, out, kernel;  // channels of a group
    op::Conv2dOptions options;
    bool bias;
  };
  const Case cases[]{
      {"two groups", 2, 24, 48, 3, {.padding = 1, .activation = Activation::relu}, true},
      {"two groups without a bias", 2, 40, 24, 3, {.padding = 1}, false},
      {"three groups with a stride", 3, 40, 24, 3, {.stride = 2, .padding = 1}, true},
      {"two groups, relu6", 2, 96, 24, 5, {.padding = 2, .activation = Activation::relu6}, true},
      {"two groups, sigmoid", 2, 24, 24, 3, {.padding = 1, .activation = Activation::sigmoid}, true},
      {"four groups of one element", 4, 24, 40, 1, {.activation = Activation::relu}, true},
  };
  struct Forced {
    const char *forward, *to_x;
  };
  for (const std::string& mode : testing::available_modes())
    for (const Forced& forced : {Forced{"fused_epilogue", "flipped"}, Forced{"library", "library"}})
      for (const Case& c : cases) {
        if (mode != "cuda" && forced.to_x != std::string_view("library")) continue;  // nothing is forced
        INFO(mode << ": " << c.name << ", " << forced.forward << ", " << forced.to_x);
        const Device device{mode};
        std::optional<ForcedAlgorithm> forward, to_x, to_weight;
        if (mode == "cuda") {
          forward.emplace("conv2d", forced.forward);
          to_x.emplace("conv2d_grad_x", forced.to_x);
          to_weight.emplace("conv2d_grad_weight", "library");
        }
        const auto results = [&](bool together) {
          Generator generator{7};
          const auto make = [&](const Shape& shape) {
            return randn(shape, generator).to(DType::bfloat16).detach().set_requires_grad();
          };
          const Tensor x = make({3, c.groups * c.in, 13, 13}),
                       weight = make({c.groups * c.out, c.in, c.kernel, c.kernel}),
                       bias = c.bias ? make({c.groups * c.out}) : Tensor{};
          Tensor out;
          if (together) {
            op::Conv2dOptions grouped = c.options;
            grouped.groups = c.groups;
            out = op::conv2d(x, weight, bias, grouped);
          } else {
            std::vector<Tensor> parts;
            for (std::int64_t i = 0; i < c.groups; ++i)
              parts.push_back(op::conv2d(x.slice(1, i * c.in, (i + 1) * c.in),
                                         weight.slice(0, i * c.out, (i + 1) * c.out),
                                         c.bias ? bias.slice(0, i * c.out, (i + 1) * c.out) : Tensor{}, c.options));
            out = op::cat(parts, 1);
          }
          op::sum(op::square(out.to(DType::float32))).backward();
          std::vector<Tensor> found{out.detach(), x.grad(), weight.grad()};
          if (c.bias) found.push_back(bias.grad());
          return found;
        };
        const std::vector<Tensor> found = results(true);
        if (forward) {
          const bool library = forced.forward == std::string_view("library");
          CHECK(forward->taken() == (library || (c.bias && c.options.activation != Activation::sigmoid) ? 1 : 0));
          CHECK(to_x->taken() == (library || c.options.stride.h == 1 ? 1 : 0));
          CHECK(to_weight->taken() == 1);
        }
        const std::vector<Tensor> separate = results(false);
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(distance(found[i], separate[i]) < 8e-3);
      }
}

// Those of 12 channels leave the slices behind them at addresses that no engine takes.
TEST_CASE("16 bits: convolutions into slices of a joined tensor as separate convolutions", "[precision]") {
  struct Case {
    const char* name;
    std::vector<std::int64_t> out;
    std::int64_t in, kernel;
    op::Conv2dOptions options;
    bool bias;
  };
  const Case cases[]{
      {"relu", {40, 64, 16}, 24, 3, {.padding = 1, .activation = Activation::relu}, true},
      {"without a bias", {64, 24}, 16, 3, {.padding = 1}, false},
      {"with a stride", {24, 40}, 16, 3, {.stride = 2, .padding = 1}, true},
      {"one element", {40, 64, 16}, 32, 1, {.activation = Activation::relu}, true},
      {"in groups", {48, 80}, 48, 3, {.padding = 1, .groups = 2, .activation = Activation::relu}, true},
      {"12 channels", {12, 24, 12}, 16, 3, {.padding = 1, .activation = Activation::relu}, true},
      {"one element, 12 channels", {12, 24, 12}, 16, 1, {}, true},
  };
  for (const std::string& mode : testing::available_modes())
    for (const char* const forward : {"fused_epilogue", "product", "library", "implicit"})
      for (const DType dtype : {DType::bfloat16, DType::float16})
        for (const Case& c : cases) {
          const std::string_view name = forward;
          if (mode != "cuda" && name != "library") continue;  // nothing is forced
          INFO(mode << ": " << c.name << ", " << forward);
          const Device device{mode};
          std::optional<ForcedAlgorithm> forced;
          if (mode == "cuda") forced.emplace("conv2d", forward);
          const auto results = [&](bool together) {
            Generator generator{7};
            std::vector<Tensor> inputs;
            const auto make = [&](const Shape& shape) {
              inputs.push_back(randn(shape, generator).to(dtype).detach().set_requires_grad());
              return inputs.back();
            };
            const Tensor x = make({3, c.in, 13, 13});
            std::vector<op::Conv2dCall> calls;
            for (const std::int64_t out : c.out) {
              const Tensor weight = make({out, c.in / c.options.groups, c.kernel, c.kernel});
              calls.push_back({x, weight, c.bias ? make({out}) : Tensor{}, c.options});
            }
            std::vector<Tensor> parts;
            if (!together)
              for (const auto& call : calls) parts.push_back(op::conv2d(call.x, call.weight, call.bias, call.options));
            const Tensor out = together ? op::conv2d_cat(calls) : op::cat(parts, 1);
            op::sum(op::square(out.to(DType::float32))).backward();
            std::vector<Tensor> found{out.detach()};
            for (const Tensor& input : inputs) found.push_back(input.grad());
            return found;
          };
          const std::vector<Tensor> found = results(true);
          const bool one_group = c.options.groups == 1;
          const bool fits = name == "library" || (name == "implicit" && one_group) ||
                            (name == "fused_epilogue" && c.bias) ||
                            (name == "product" && c.bias && one_group && c.kernel == 1);
          if (forced && c.out[0] % 8 == 0) CHECK(forced->taken() == (fits ? static_cast<int>(c.out.size()) : 0));
          const std::vector<Tensor> separate = results(false);
          for (std::size_t i = 0; i < found.size(); ++i) CHECK(distance(found[i], separate[i]) < 8e-3);
        }
}
