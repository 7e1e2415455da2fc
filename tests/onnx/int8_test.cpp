// Layers between QuantizeLinear and DequantizeLinear compute in 8 bits, with the numbers of float32 to one step.

#include <cmath>
#include <functional>
#include <set>

#include "onnx/models.hpp"
#include "support/catch.hpp"

namespace {

using namespace tern;
using test::attribute;
using test::Integers;
using test::Model;
using test::node;

constexpr double step = 0.05;

/// Writes QDQ models: every activation has one scale, with a zero of int8 or uint8.
class Qdq {
 public:
  explicit Qdq(bool whole) {
    model.input("x", {"N", "4", "8", "8"}).output("y");
    model.initializer("step", full({}, step));
    model.initializer("zero", whole ? op::cast(full({}, -3), DType::int8) : full({}, 125, DType::uint8));
  }
  /// A value as stored numbers and back.
  std::string stored(const std::string& name) {
    model.add(node("QuantizeLinear", {name, "step", "zero"}, {name + "_q"}));
    model.add(node("DequantizeLinear", {name + "_q", "step", "zero"}, {name + "_s"}));
    return name + "_s";
  }
  /// Random weights of int8, with a scale for each output along `axis`.
  std::string weights(const std::string& name, const Shape& shape, std::int64_t axis) {
    const Tensor numbers = op::cast(randint(-127, 128, shape, generator), DType::int8);
    model.initializer(name + "_q", numbers)
        .initializer(name + "_scale", rand({shape[static_cast<int>(axis)]}, generator, 0.001, 0.004));
    model.add(node("DequantizeLinear", {name + "_q", name + "_scale"}, {name}, {attribute("axis", axis)}));
    return name;
  }
  Model model;
  Generator generator{5};
};

std::multiset<std::string> operators_of(const graph::Graph& graph) {
  std::multiset<std::string> names;
  for (const graph::Node& node : graph.structure().nodes) names.insert(node.op->name());
  return names;
}

/// The largest distance, in steps, between 8 bits and float32.
double steps_apart(const Model& model, const graph::Graph& graph) {
  onnx::LoadOptions options;
  options.int8 = false;
  Generator generator(9);
  const Tensor x = randn({3, 4, 8, 8}, generator);
  const std::vector<double> a = graph(x).values(), b = model.read(options)(x).values();
  REQUIRE(a.size() == b.size());
  double apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) apart = std::max(apart, std::abs(a[i] - b[i]) / step);
  return apart;
}

TEST_CASE("onnx: QDQ layers run in 8 bits, within one step of float32", "[onnx]") {
  for (const bool whole : {false, true}) {
    CAPTURE(whole);
    const auto one_layer = [&](const std::function<std::string(Qdq&, const std::string& x)>& layer, const char* op) {
      Qdq qdq(whole);
      const std::string made = layer(qdq, qdq.stored("x"));
      qdq.model.add(node("Identity", {qdq.stored(made)}, {"y"}));
      const graph::Graph graph = qdq.model.read();
      INFO(graph.text());
      CHECK(operators_of(graph).contains(op));
      CHECK(!operators_of(graph).contains("conv2d"));
      CHECK(steps_apart(qdq.model, graph) < 1.001);
    };
    one_layer(
        [](Qdq& qdq, const std::string& x) {
          qdq.model.initializer("b", randn({6}, qdq.generator));
          const std::string w = qdq.weights("w", {6, 4, 3, 3}, 0);
          qdq.model.add(node("Conv", {x, w, "b"}, {"c"}, {attribute("pads", Integers{1, 1, 1, 1})}));
          qdq.model.add(node("Relu", {"c"}, {"r"}));
          return std::string("r");
        },
        "quantized_conv2d");
    one_layer(
        [](Qdq& qdq, const std::string& x) {
          const std::string w = qdq.weights("w", {8, 2, 3, 3}, 0);
          qdq.model.add(node("Conv", {x, w}, {"c"},
                             {attribute("pads", Integers{0, 1, 1, 2}), attribute("group", std::int64_t{2}),
                              attribute("strides", Integers{2, 2})}));
          return std::string("c");
        },
        "quantized_conv2d");
    one_layer(
        [](Qdq& qdq, const std::string& x) {
          const std::string w = qdq.weights("w", {8, 5}, 1);
          qdq.model.add(node("MatMul", {x, w}, {"m"}));
          return std::string("m");
        },
        "quantized_linear");
    one_layer(
        [](Qdq& qdq, const std::string& x) {
          qdq.model.initializer("rows", tern::tensor<std::int64_t>({0, -1}));
          qdq.model.add(node("Reshape", {x, "rows"}, {"flat"}));
          const std::string w = qdq.weights("w", {5, 256}, 0);
          qdq.model.initializer("b", randn({5}, qdq.generator));
          qdq.model.add(node("Gemm", {qdq.stored("flat"), w, "b"}, {"g"}, {attribute("transB", std::int64_t{1})}));
          return std::string("g");
        },
        "quantized_linear");
    one_layer(
        [](Qdq& qdq, const std::string& x) {
          qdq.model.add(node("MaxPool", {x}, {"p"},
                             {attribute("kernel_shape", Integers{2, 2}), attribute("strides", Integers{2, 2})}));
          qdq.model.add(node("GlobalAveragePool", {qdq.stored("p")}, {"a"}));
          return std::string("a");
        },
        "quantized_max_pool2d");
    one_layer(
        [](Qdq& qdq, const std::string& x) {
          qdq.model.add(node("Add", {x, x}, {"a"}));
          qdq.model.add(node("Concat", {qdq.stored("a"), x}, {"c"}, {attribute("axis", std::int64_t{1})}));
          return std::string("c");
        },
        "quantized_cat");
  }
}

TEST_CASE("onnx: what does not fit 8 bits stays in float32", "[onnx]") {
  // The layer's result is read in float32, too.
  Qdq qdq(true);
  const std::string x = qdq.stored("x"), w = qdq.weights("w", {4, 4, 1, 1}, 0);
  qdq.model.add(node("Conv", {x, w}, {"c"}));
  qdq.model.add(node("Add", {qdq.stored("c"), "c"}, {"y"}));
  const graph::Graph graph = qdq.model.read();
  CHECK(operators_of(graph).contains("conv2d"));
  CHECK(steps_apart(qdq.model, graph) < 1.001);
}

}  // namespace
