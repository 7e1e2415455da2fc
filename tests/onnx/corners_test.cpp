// Corners of single operators, with results as ONNX's text has them.

#include <cmath>
#include <limits>

#include "onnx/models.hpp"
#include "support/catch.hpp"

namespace {

using namespace tern;
using test::attribute;
using test::Model;
using test::node;
using test::sizes_of;

/// The results of a node on inputs "x0", "x1", ...
std::vector<Tensor> run(const std::string& type, const std::vector<Tensor>& inputs,
                        std::vector<onnx::AttributeProto> attributes = {}, int results = 1) {
  Model model(20);
  std::vector<std::string> names, outputs;
  for (const Tensor& x : inputs) {
    names.push_back(message("x", names.size()));
    model.input(names.back(), sizes_of(x), x.dtype());
  }
  for (int i = 0; i < results; ++i) {
    outputs.push_back(message("y", i));
    model.output(outputs.back());
  }
  model.add(node(type, names, outputs, std::move(attributes)));
  return model.read().run(inputs);
}

std::vector<double> bytes(std::initializer_list<double> values) { return values; }

}  // namespace

TEST_CASE("onnx: no window starts in wide padding, where outputs are rounded up", "[onnx]") {
  const std::vector<onnx::AttributeProto> attributes{
      attribute("kernel_shape", test::Integers{2, 3}), attribute("strides", test::Integers{2, 3}),
      attribute("pads", test::Integers{1, 1, 1, 2}), attribute("ceil_mode", std::int64_t{1})};
  const Tensor pooled = run("MaxPool", {full({1, 1, 7, 5}, -2)}, attributes)[0];
  CHECK(pooled.shape() == Shape{1, 1, 4, 2});  // not 5 x 3, of which some would have nothing but padding
  CHECK(pooled.values() == std::vector<double>(8, -2));
}

TEST_CASE("onnx: integers lose their upper bits in a cast", "[onnx]") {
  const auto to = [](const Tensor& x, DType dtype) {
    return run("Cast", {x}, {attribute("to", onnx::element_of(dtype))})[0].values();
  };
  const Tensor wide = tern::tensor<std::int64_t>({200, -129, 256, (std::int64_t{1} << 31) + 5});
  CHECK(to(wide, DType::int8) == bytes({-56, 127, 0, 5}));
  CHECK(to(wide, DType::uint8) == bytes({200, 127, 0, 5}));
  CHECK(to(wide, DType::int32) == bytes({200, -129, 256, -2147483643}));
  CHECK(to(tern::tensor<std::uint8_t>({127, 128, 255}), DType::int8) == bytes({127, -128, -1}));
  CHECK(to(tern::tensor<std::int8_t>({127, -128, -1}), DType::uint8) == bytes({127, 128, 255}));
  CHECK(to(tern::tensor<std::int8_t>({5, -128, -1}), DType::int64) == bytes({5, -128, -1}));
}

TEST_CASE("onnx: unique elements of the flattened input have flat positions", "[onnx]") {
  const std::vector<Tensor> all = run("Unique", {tern::tensor({{2.0F, 1.0F}, {1.0F, 3.0F}})}, {}, 4);
  CHECK(all[0].values() == bytes({1, 2, 3}));
  CHECK(all[2].shape() == Shape{4});
  CHECK(all[2].values() == bytes({1, 0, 0, 2}));
}

TEST_CASE("onnx: the sign of what is not a number is none", "[onnx]") {
  const std::vector<double> signs =
      run("Sign", {tern::tensor({std::numeric_limits<float>::quiet_NaN(), -2.0F, 0.0F})})[0].values();
  CHECK(std::isnan(signs[0]));
  CHECK(signs[1] == -1);
  CHECK(signs[2] == 0);
}

TEST_CASE("onnx: instance normalisation of planes of one value leaves the bias", "[onnx]") {
  const Tensor x = tern::tensor({7.0F, -3.0F}, {1, 2, 1, 1});
  const Tensor scale = tern::tensor({2.0F, 3.0F}), bias = tern::tensor({0.5F, -0.5F});
  CHECK(run("InstanceNormalization", {x, scale, bias})[0].values() == bytes({0.5, -0.5}));
}

TEST_CASE("onnx: an exclusive sum of no elements has none", "[onnx]") {
  Model model(20);
  model.input("x", {"2", "0"}).output("y").initializer("axis", scalar(std::int64_t{1}));
  model.add(node("CumSum", {"x", "axis"}, {"y"}, {attribute("exclusive", std::int64_t{1})}));
  CHECK(model.read()(Tensor({2, 0})).shape() == Shape{2, 0});
}

TEST_CASE("onnx: int8 has bits and largest elements", "[onnx]") {
  const Tensor x = tern::tensor<std::int8_t>({5, -128, 127});
  CHECK(run("BitwiseNot", {x})[0].values() == bytes({-6, 127, -128}));
  CHECK(run("ArgMax", {x})[0].values() == bytes({2}));
  CHECK(run("ArgMin", {x})[0].values() == bytes({1}));
}

TEST_CASE("onnx: outputs may be inputs, initialisers and one another", "[onnx]") {
  Model model(17);
  model.input("x", {"N", "3"}).initializer("w", ones({3}));
  for (const char* name : {"x", "y", "w", "y"}) model.output(name);
  model.add(node("Add", {"x", "w"}, {"y"}));
  const graph::Graph net = model.read();
  const Tensor x = full({2, 3}, 4);
  const std::vector<Tensor> all = net.run({x});
  REQUIRE(all.size() == 4);
  CHECK(all[0].values() == x.values());
  CHECK(all[1].values() == std::vector<double>(6, 5));
  CHECK(all[2].values() == std::vector<double>(3, 1));
  CHECK(all[3].values() == all[1].values());
  CHECK(net.structure().values[net.structure().results[1]].name == "y");
  const graph::Program program(net);
  for (int call = 0; call < 3; ++call) CHECK(program(std::vector{x})[3].values() == all[1].values());
}

TEST_CASE("onnx: products and powers of int64 are exact", "[onnx]") {
  constexpr std::int64_t large = (std::int64_t{1} << 55) + 1;
  const auto integers = [](const Tensor& x) { return x.to_vector<std::int64_t>(); };
  const Tensor a = tern::tensor<std::int64_t>({3, 5}), b = tern::tensor<std::int64_t>({1, large});
  CHECK(integers(run("MatMul", {a, b})[0]) == std::vector{3 + 5 * large});
  CHECK(integers(run("MatMul", {a.reshape({2, 1}), b.reshape({1, 2})})[0]) ==
        std::vector{std::int64_t{3}, 3 * large, std::int64_t{5}, 5 * large});
  CHECK(integers(run("MatMul", {ones({3, 1, 4, 2}, DType::int64), b})[0]) == std::vector(12, 1 + large));
  Model model(17);
  model.input("x", {"2"}, DType::int64).output("y").initializer("three", scalar(std::int64_t{3}));
  model.add(node("Pow", {"x", "three"}, {"y"}));
  const std::int64_t root = (std::int64_t{1} << 20) + 1;
  CHECK(integers(model.read()(tern::tensor<std::int64_t>({root, -3}))) ==
        std::vector{root * root * root, std::int64_t{-27}});
}

TEST_CASE("onnx: windows of a signal are transformed", "[onnx]") {
  Model model(17);
  model.input("x", {"1", "6"}).output("y").initializer("step", scalar(std::int64_t{2}));
  model.initializer("window", tern::tensor({1.0F, 2.0F})).add(node("STFT", {"x", "step", "window"}, {"y"}));
  const Tensor y = model.read()(tern::tensor({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {1, 6}));
  CHECK(y.shape() == Shape{1, 3, 2, 2});
  // Of (p, q) the sum and the difference.
  const Tensor expected = tern::tensor({5.0F, 0.0F, -3.0F, 0.0F, 11.0F, 0.0F, -5.0F, 0.0F, 17.0F, 0.0F, -7.0F, 0.0F});
  CHECK(operators::max(operators::abs(operators::sub(y.reshape({-1}), expected))).item() < 1e-5);
}

TEST_CASE("onnx: what does not follow the batch in a line is not written as one", "[onnx]") {
  // The first half of the batch, rounded down: one of two rows, and one of three.
  Model model(17);
  model.input("x", {"N", "3"}).output("y");
  model.initializer("first", tern::tensor<std::int64_t>({0})).initializer("two", tern::tensor<std::int64_t>({2}));
  model.add(node("Shape", {"x"}, {"sizes"})).add(node("Gather", {"sizes", "first"}, {"batch"}));
  model.add(node("Div", {"batch", "two"}, {"half"})).add(node("Slice", {"x", "first", "half", "first"}, {"y"}));
  const graph::Graph net = model.read();
  CHECK(net(ones({2, 3})).shape() == Shape{1, 3});
  CHECK_THROWS_AS(net(ones({6, 3})), ShapeError);
}

TEST_CASE("onnx: a slice backwards from before the first element begins on it", "[onnx]") {
  const Tensor x = tern::tensor({1.0F, 2.0F, 3.0F});
  const auto backwards = [&](std::int64_t begin) {
    Model model(13);
    model.input("x", {"3"}).output("y");
    for (const auto& [name, value] :
         {std::pair("b", begin), {"e", std::int64_t{-100}}, {"a", std::int64_t{0}}, {"s", std::int64_t{-2}}})
      model.initializer(name, tern::tensor<std::int64_t>({value}));
    return model.add(node("Slice", {"x", "b", "e", "a", "s"}, {"y"})).read().run({x})[0].values();
  };
  CHECK(backwards(-8) == bytes({1}));
  CHECK(backwards(-3) == bytes({1}));
  CHECK(backwards(-1) == bytes({3, 1}));
  CHECK(backwards(9) == bytes({3, 1}));
}

TEST_CASE("onnx: positions of a pool with wide padding, and by columns in three dimensions", "[onnx]") {
  const Tensor x = tern::tensor({1.0F, 9.0F, 3.0F, 4.0F, 5.0F, 6.0F}).reshape({1, 1, 2, 3});
  const std::vector<onnx::AttributeProto> wide{attribute("kernel_shape", test::Integers{3, 3}),
                                               attribute("pads", test::Integers{2, 2, 2, 2}),
                                               attribute("strides", test::Integers{2, 2})};
  const std::vector<Tensor> pooled = run("MaxPool", {x}, wide, 2);
  CHECK(pooled[0].values() == bytes({1, 9, 3, 4, 9, 6}));  // 2 x 3 windows
  CHECK(pooled[1].values() == bytes({0, 1, 2, 3, 1, 5}));

  const std::vector<Tensor> behind =
      run("MaxPool", {x},
          {attribute("kernel_shape", test::Integers{1, 3}), attribute("pads", test::Integers{0, 0, 0, 2})}, 2);
  CHECK(behind[0].values() == bytes({9, 9, 3, 6, 6, 6}));
  CHECK(behind[1].values() == bytes({1, 1, 2, 5, 5, 5}));

  const Tensor volume = op::reshape(op::cast(arange(0, 8), DType::float32), {1, 1, 2, 2, 2});
  const std::vector<Tensor> one =
      run("MaxPool", {volume},
          {attribute("kernel_shape", test::Integers{1, 1, 1}), attribute("storage_order", std::int64_t{1})}, 2);
  CHECK(one[1].values() == bytes({0, 4, 2, 6, 1, 5, 3, 7}));
}

TEST_CASE("onnx: rounded up, a window that fits nowhere is one output", "[onnx]") {
  const std::vector<onnx::AttributeProto> attributes{attribute("kernel_shape", test::Integers{4}),
                                                     attribute("strides", test::Integers{2}),
                                                     attribute("ceil_mode", std::int64_t{1})};
  const Tensor x = tern::tensor({1.0F, 2.0F, 6.0F}).reshape({1, 1, 3});
  CHECK(run("MaxPool", {x}, attributes)[0].values() == bytes({6}));
  CHECK(run("AveragePool", {x}, attributes)[0].values() == bytes({3}));
}

TEST_CASE("onnx: pools with windows below their stride leave the ends out, as the formula of SAME says", "[onnx]") {
  const Tensor x = tern::tensor({1.0F, 2.0F, 3.0F}).reshape({1, 1, 3});
  for (const bool upper : {true, false}) {
    const std::vector<onnx::AttributeProto> attributes{
        attribute("kernel_shape", test::Integers{1}), attribute("strides", test::Integers{3}),
        attribute("auto_pad", std::string(upper ? "SAME_UPPER" : "SAME_LOWER"))};
    // One window: two elements are left out, one at each end or, as the half of an odd number is rounded, both behind.
    CHECK(run("MaxPool", {x}, attributes)[0].values() == bytes({upper ? 2.0 : 1.0}));
  }
}
