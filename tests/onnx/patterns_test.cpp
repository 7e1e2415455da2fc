// Operators that files write as several.

#include <cmath>

#include "onnx/models.hpp"
#include "support/catch.hpp"

namespace {

using namespace tern;
using test::Model;
using test::node;

/// The model with these nodes between x and y.
Model with(const std::vector<onnx::NodeProto>& nodes, float factor = 0.5F) {
  Model model;
  model.input("x", {"N", "6"}).output("y");
  model.initializer("root", full({}, 1.4142135F)).initializer("inverse", full({}, 0.70710677F));
  model.initializer("one", full({}, 1)).initializer("half", full({}, factor));
  for (const onnx::NodeProto& each : nodes) model.add(each);
  return model;
}

TEST_CASE("onnx: gelu in parts is gelu", "[onnx]") {
  const onnx::NodeProto divided = node("Div", {"x", "root"}, {"a"}), scaled = node("Mul", {"inverse", "x"}, {"a"});
  const onnx::NodeProto erf = node("Erf", {"a"}, {"b"}), sum = node("Add", {"b", "one"}, {"c"});
  const std::vector<std::vector<onnx::NodeProto>> forms{
      {divided, erf, sum, node("Mul", {"x", "c"}, {"d"}), node("Mul", {"d", "half"}, {"y"})},
      {scaled, erf, sum, node("Mul", {"x", "half"}, {"d"}), node("Mul", {"d", "c"}, {"y"})},
      {scaled, erf, sum, node("Mul", {"half", "c"}, {"d"}), node("Mul", {"x", "d"}, {"y"})}};
  Generator generator(4);
  const Tensor x = randn({3, 6}, generator);
  const std::vector<double> expected = op::gelu(x).values();
  for (const auto& nodes : forms) {
    const graph::Graph graph = with(nodes).read();
    REQUIRE(graph.structure().nodes.size() == 1);
    CHECK(graph.structure().nodes[0].op->name() == "gelu");
    CHECK(graph(x).values() == expected);
  }
  // Another factor is no gelu.
  const graph::Graph other = with(forms[0], 0.25F).read();
  CHECK(other.structure().nodes.size() == 5);
  const std::vector<double> halves = other(x).values();
  for (std::size_t i = 0; i < halves.size(); ++i) CHECK(std::abs(halves[i] - expected[i] / 2) < 1e-6);
}

TEST_CASE("onnx: x times its sigmoid is silu", "[onnx]") {
  Generator generator(5);
  const Tensor x = randn({3, 6}, generator);
  for (const bool swapped : {false, true}) {
    const onnx::NodeProto product = swapped ? node("Mul", {"x", "a"}, {"y"}) : node("Mul", {"a", "x"}, {"y"});
    const graph::Graph graph = with({node("Sigmoid", {"x"}, {"a"}), product}).read();
    REQUIRE(graph.structure().nodes.size() == 1);
    CHECK(graph(x).values() == op::silu(x).values());
  }
  // A gate of something else stays.
  const graph::Graph other = with({node("Sigmoid", {"half"}, {"a"}), node("Mul", {"a", "x"}, {"y"})}).read();
  for (const graph::Node& each : other.structure().nodes) CHECK(each.op->name() == "mul");
}

}  // namespace
