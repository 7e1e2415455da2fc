// Models become graphs.

#include "onnx/models.hpp"
#include "support/catch.hpp"

namespace {

using namespace tern;
using test::attribute;
using test::Model;
using test::node;

Tensor numbers(const Shape& shape, std::uint64_t seed = 1) {
  Generator generator(seed);
  return randn(shape, generator);
}

TEST_CASE("onnx: LeNet loads, runs at any batch, and has the operators' bits", "[onnx]") {
  const graph::Graph net = test::lenet().read();
  CHECK(net.structure().name == "net");
  CHECK(net.structure().values[net.structure().inputs[0]].name == "image");
  CHECK(net.structure().values[net.structure().results[0]].name == "logits");
  std::map<std::string, Tensor> parameters;
  for (const auto& [name, tensor] : net.named_parameters()) parameters[name] = tensor;
  REQUIRE(parameters.size() == 6);
  for (const std::int64_t batch : {1, 2, 5}) {
    const Tensor x = numbers({batch, 1, 28, 28});
    const Tensor pooled =
        op::max_pool2d(op::relu(op::conv2d(x, parameters["features.weight"], parameters["features.bias"])), 2);
    const Tensor hidden =
        op::relu(op::linear(op::reshape(pooled, {batch, -1}), parameters["hidden.weight"], parameters["hidden.bias"]));
    const Tensor expected = op::linear(hidden, parameters["head.weight"], parameters["head.bias"]);
    CHECK(net(x).values() == expected.values());
  }
}

TEST_CASE("onnx: an imported network learns", "[onnx]") {
  const graph::Graph net = test::lenet().read();
  const Tensor x = numbers({4, 1, 28, 28}), labels = tern::tensor<std::int64_t>({1, 2, 3, 4});
  optim::SGD sgd(net.parameters(), {.learning_rate = 0.05});
  const double before = op::cross_entropy(net(x), labels).item();
  for (int step = 0; step < 20; ++step) {
    sgd.zero_grad();
    op::cross_entropy(net(x), labels).backward();
    sgd.step();
  }
  CHECK(op::cross_entropy(net(x), labels).item() < 0.5 * before);
}

TEST_CASE("onnx: everything that is lacking is listed at once", "[onnx]") {
  Model model;
  model.input("x", {"2", "3"}).output("z");
  model.add(node("com.x.Swish", {"x"}, {"a"})).add(node("com.x.Swish", {"x"}, {"b"}));
  model.add(node("Wobble", {"a"}, {"c"})).add(node("Relu", {"x"}, {"d"}, {attribute("slope", 2.0f)}));
  model.add(node("Add", {"c", "d"}, {"z"}));
  try {
    model.read();
    FAIL("no error");
  } catch (const onnx::OnnxError& error) {
    REQUIRE(error.lacks().size() == 3);
    CHECK(error.lacks()[0].op == "com.x.Swish");
    CHECK(error.lacks()[0].count == 2);
    CHECK(error.lacks()[1].op == "Wobble");
    CHECK(error.lacks()[2].what == "has an attribute 'slope' that Tern does not know");
    CHECK_THAT(error.what(), Catch::ContainsSubstring("LoadOptions{.operators"));
  }
}

TEST_CASE("onnx: operators of the caller", "[onnx]") {
  Model model;
  model.input("x", {"N", "3"}).output("y");
  model.add(node("com.x.Swish", {"x"}, {"y"}, {attribute("beta", 2.0f)}));
  const graph::Graph net = model.read({.operators = {{"com.x.Swish", [](const onnx::Call& call) {
                                                        const Tensor& x = call.input(0);
                                                        const double beta = call.number("beta", 1);
                                                        return std::vector{op::mul(x, op::sigmoid(op::mul(x, beta)))};
                                                      }}}});
  const Tensor x = numbers({5, 3});
  CHECK(net(x).values() == op::mul(x, op::sigmoid(op::mul(x, 2.0))).values());
}

TEST_CASE("onnx: two views of one computed constant", "[onnx]") {
  Model model;
  model.input("x", {"N", "2"}).output("y").initializer("shape", tern::tensor<std::int64_t>({4, 2}));
  for (const auto& [name, at] : {std::pair{"zero", 0}, {"two", 2}, {"four", 4}})
    model.initializer(name, tern::tensor<std::int64_t>({at}));
  model.add(node("ConstantOfShape", {"shape"}, {"all"}));
  model.add(node("Slice", {"all", "zero", "two", "zero"}, {"a"}))
      .add(node("Slice", {"all", "two", "four", "zero"}, {"b"}));
  model.add(node("Split", {"a"}, {"a0", "a1"})).add(node("Split", {"b"}, {"b0", "b1"}));
  model.add(node("Add", {"x", "a1"}, {"c"})).add(node("Add", {"c", "b1"}, {"y"}));
  const Tensor x = numbers({3, 2});
  CHECK(model.read()(x).values() == x.values());
}

}  // namespace

TEST_CASE("onnx: a loop counts with all digits of its number of iterations", "[onnx]") {
  // As exporters write a loop that its condition ends: double has no such number, and none above it fits int64.
  const auto counted = [](const Tensor& most) {
    Model model(18);
    model.input("x", {"2"}).output("y").initializer("most", most).initializer("go", full({}, true, DType::boolean));
    model.initializer("last", scalar<std::int64_t>(2)).initializer("step", scalar(1.0F));
    onnx::GraphProto body;
    body.inputs = {Model::value("i", {}, DType::int64), Model::value("on", {}, DType::boolean),
                   Model::value("v", {"2"}, DType::float32)};
    body.nodes = {node("Less", {"i", "last"}, {"next"}), node("Add", {"v", "step"}, {"w"})};
    body.outputs = {Model::value("next", {}, DType::boolean), Model::value("w", {"2"}, DType::float32)};
    model.add(node("Loop", {"most", "go", "x"}, {"y"}, {attribute("body", body)}));
    return model.read().run({zeros({2})})[0].values();
  };
  CHECK(counted(scalar<std::int64_t>(std::numeric_limits<std::int64_t>::max())) == std::vector<double>{3, 3});
  CHECK(counted(scalar<std::int64_t>(2)) == std::vector<double>{2, 2});
  CHECK(counted(scalar<std::int64_t>(-5)) == std::vector<double>{0, 0});
  CHECK_THROWS_WITH(counted(scalar(3.0F)), Catch::ContainsSubstring("of float32, expected int64"));
}

TEST_CASE("onnx: what a scan goes over has one length", "[onnx]") {
  Model model(18);
  model.input("a", {"3", "2"}).input("b", {"4", "2"}).output("y");
  onnx::GraphProto body;
  body.inputs = {Model::value("p", {"2"}, DType::float32), Model::value("q", {"2"}, DType::float32)};
  body.nodes = {node("Add", {"p", "q"}, {"s"})};
  body.outputs = {Model::value("s", {"2"}, DType::float32)};
  model.add(node("Scan", {"a", "b"}, {"y"}, {attribute("body", body), attribute("num_scan_inputs", std::int64_t{2})}));
  CHECK_THROWS_WITH(model.read(), Catch::ContainsSubstring("Scan of 'y' scans 4 and 3 steps"));
}
