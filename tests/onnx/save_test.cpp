// Graphs become models, which become graphs with the same results.

#include <filesystem>

#include "onnx/models.hpp"
#include "support/catch.hpp"
#include "support/checks.hpp"

namespace {

using namespace tern;
using test::attribute;
using test::Model;
using test::node;

Tensor numbers(const Shape& shape, std::uint64_t seed = 1) {
  Generator generator(seed);
  return randn(shape, generator);
}

graph::Graph again(const graph::Graph& graph) {
  const std::string bytes = onnx::write(graph);
  return onnx::read(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

/// The largest difference, relative to the largest number.
double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return op::max(op::abs(a - b)).item() / (1e-30 + op::max(op::abs(b)).item());
}

TEST_CASE("onnx: LeNet is saved and loaded with the same bits", "[onnx]") {
  const graph::Graph net = test::lenet().read(), loaded = again(net);
  CHECK(loaded.structure().nodes.size() == net.structure().nodes.size());
  for (const std::int64_t batch : {1, 3}) {
    const Tensor x = numbers({batch, 1, 28, 28});
    CHECK(loaded(x).values() == net(x).values());
  }
  const std::vector<nn::NamedTensor> before = net.named_parameters(), after = loaded.named_parameters();
  REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(before[i].name == after[i].name);
    CHECK(before[i].tensor.values() == after[i].tensor.values());
  }
}

TEST_CASE("onnx: networks of the library and folded graphs are saved at any batch", "[onnx]") {
  const auto check = [](const nn::Module& net, const Shape& shape) {
    const graph::Graph traced = graph::trace(net, numbers(shape, 2));
    for (const graph::Graph& graph : {traced, graph::for_inference(traced)}) {
      const graph::Graph loaded = again(graph);
      Shape other = shape;
      other[0] = 3;
      const Tensor x = numbers(other, 3);
      CHECK(distance(loaded(x), net(x)) < 1e-5);
    }
  };
  models::LeNet lenet;
  lenet.eval();
  check(lenet, {1, 1, 28, 28});
  nn::Sequential net(nn::Conv2d(3, 8, 3, {.padding = 1}), nn::BatchNorm2d(8), nn::Relu(), nn::MaxPool2d(2),
                     nn::Flatten(), nn::Linear(128, 10));
  net.eval();
  check(net, {2, 3, 8, 8});
}

TEST_CASE("onnx: what cannot be written is listed", "[onnx]") {
  const graph::Graph graph = graph::trace(
      [](const std::vector<Tensor>& x) { return std::vector{op::roll(op::cumprod(x[0], 0), {1})}; }, {numbers({3, 4})});
  try {
    onnx::write(graph);
    FAIL("no error");
  } catch (const onnx::OnnxError& error) {
    REQUIRE(error.lacks().size() == 2);
    CHECK(error.lacks()[0].op == "cumprod");
    CHECK(error.lacks()[1].op == "roll");
  }
}

TEST_CASE("onnx: outputs that are inputs, parameters or one value twice have names of their own", "[onnx]") {
  Model model;
  model.input("x", {"2", "3"}).output("same").output("y").output("twin").output("weight_out");
  model.initializer("w", numbers({3}));
  model.add(node("Identity", {"x"}, {"same"})).add(node("Add", {"x", "w"}, {"y"}));
  model.add(node("Identity", {"y"}, {"twin"})).add(node("Identity", {"w"}, {"weight_out"}));
  const graph::Graph net = model.read();
  std::vector<std::string> names;
  for (const int id : net.structure().results) names.push_back(net.structure().values[id].name);
  CHECK(names == std::vector<std::string>{"same", "y", "twin", "weight_out"});
  CHECK(net.structure().values[net.structure().inputs[0]].name == "x");
  const Tensor x = numbers({2, 3});
  const std::vector<Tensor> results = net.run({x}), saved = again(net).run({x});
  for (std::size_t i = 0; i < results.size(); ++i) CHECK(results[i].values() == saved[i].values());
}

TEST_CASE("onnx: what follows values is saved transposed and loaded again", "[onnx]") {
  Model model;
  model.input("x", {"2", "3"}).output("y").add(node("NonZero", {"x"}, {"y"}));
  const graph::Graph net = model.read(), loaded = again(net);
  const Tensor x = tensor<float>({0, 1, 2, 0, 0, 3}, {2, 3});
  CHECK(net(x).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0, 1, 1, 2, 2});
  CHECK(loaded(x).to_vector<std::int64_t>() == net(x).to_vector<std::int64_t>());
}

}  // namespace
