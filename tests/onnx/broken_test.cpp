// Models with one fault each: the message names the node, its operator, the tensors with their shapes, and says
// what to do.

#include "onnx/models.hpp"
#include "support/catch.hpp"

namespace {

using namespace tern;
using test::attribute;
using test::Broken;
using test::integers;
using test::Integers;
using test::Model;
using test::node;

/// x [2, 3, 8, 8] and y, which the nodes make.
Model images() {
  Model model;
  model.input("x", {"2", "3", "8", "8"}).output("y");
  return model;
}
/// x [2, 6] and y.
Model rows() {
  Model model;
  model.input("x", {"2", "6"}).output("y");
  return model;
}
Model with(Model model, const onnx::NodeProto& made) { return model.add(made); }
Model with(Model model, const char* name, const Tensor& tensor, const onnx::NodeProto& made) {
  return model.initializer(name, tensor).add(made);
}

onnx::NodeProto conv(std::vector<onnx::AttributeProto> attributes = {}) {
  onnx::NodeProto made = node("Conv", {"x", "w"}, {"y"}, std::move(attributes));
  made.name = "features.0";
  return made;
}

std::vector<Broken> of_layers() {
  const Tensor weight = ones({4, 3, 3, 3});
  const std::string x = "'x' float32 [2,3,8,8]", w = "'w' float32 [4,3,3,3]", at = "Conv of 'features.0'";
  Model biased = with(images(), "w", weight, node("Conv", {"x", "w", "b"}, {"y"}));
  biased.initializer("b", ones({5}));
  Model normalized = with(images(), "s", ones({4}), node("BatchNormalization", {"x", "s", "s", "s", "s"}, {"y"}));
  Model recurrent = with(images(), "w", ones({1, 8, 3}),
                         node("LSTM", {"x", "w", "w"}, {"y"}, {attribute("hidden_size", std::int64_t{2})}));
  return {
      {"channels", with(images(), "w", ones({4, 2, 3, 3}), conv()), {at, x, "'w' float32 [4,2,3,3]"}},
      {"kernel",
       with(images(), "w", weight, conv({attribute("kernel_shape", Integers{5, 5})})),
       {at, w, "kernel_shape"}},
      {"stride", with(images(), "w", weight, conv({attribute("strides", Integers{0, 1})})), {at, w}},
      {"pads", with(images(), "w", weight, conv({attribute("pads", Integers{1, 1})})), {at, w}},
      {"groups", with(images(), "w", weight, conv({attribute("group", std::int64_t{2})})), {at, x, w}},
      {"no groups", with(images(), "w", weight, conv({attribute("group", std::int64_t{0})})), {at, x, w}},
      {"dilation", with(images(), "w", weight, conv({attribute("dilations", Integers{9, 9})})), {at, x, w}},
      {"bias", biased, {"Conv of 'y'", x, w, "'b' float32 [5]"}},
      {"rank", with(rows(), "w", weight, conv()), {at, "'x' float32 [2,6]", w}},
      {"attribute's type",
       with(images(), "w", weight, conv({attribute("group", 1.0F)})),
       {at, "'group'", "of another type"}},
      {"attribute", with(images(), "w", weight, conv({attribute("winograd", std::int64_t{1})})), {at, "'winograd'"}},
      {"statistics", normalized, {"BatchNormalization of 'y'", x, "'s' float32 [4]"}},
      {"window", with(images(), node("MaxPool", {"x"}, {"y"})), {"MaxPool of 'y'", x}},
      {"large window",
       with(images(), node("AveragePool", {"x"}, {"y"}, {attribute("kernel_shape", Integers{9, 9})})),
       {"AveragePool of 'y'", x}},
      {"gates", recurrent, {"LSTM of 'y'", "'w' float32 [1,8,3]"}},
      {"product",
       with(rows(), "w", ones({5, 4}), node("MatMul", {"x", "w"}, {"y"})),
       {"MatMul of 'y'", "'x' float32 [2,6]", "'w' float32 [5,4]"}},
      {"turned",
       with(rows(), "w", ones({6, 4}), node("Gemm", {"x", "w"}, {"y"}, {attribute("transB", std::int64_t{1})})),
       {"Gemm of 'y'", "'w' float32 [6,4]"}},
      {"size", with(images(), node("Resize", {"x"}, {"y"})), {"Resize of 'y'", x}},
  };
}

std::vector<Broken> of_shapes() {
  const std::string x = "'x' float32 [2,6]";
  const auto axis = [](std::int64_t value) { return std::vector{attribute("axis", value)}; };
  Model by_values = rows();
  by_values.input("s", {"2"}, DType::int64).add(node("Reshape", {"x", "s"}, {"y"}));
  return {
      {"shape",
       with(rows(), "s", integers({5, -1}), node("Reshape", {"x", "s"}, {"y"})),
       {"Reshape of 'y'", x, "'s' int64 [2]"}},
      {"two unknowns",
       with(rows(), "s", integers({-1, -1}), node("Reshape", {"x", "s"}, {"y"})),
       {"Reshape of 'y'", x}},
      {"floating shape",
       with(rows(), "s", ones({2}), node("Reshape", {"x", "s"}, {"y"})),
       {"Reshape of 'y'", "'s' float32 [2]"}},
      {"values", by_values, {"Reshape of 'y'", "'s'", "LoadOptions::constants"}},
      {"broadcast", with(rows(), "b", ones({5}), node("Add", {"x", "b"}, {"y"})), {"Add of 'y'", x, "'b' float32 [5]"}},
      {"joined sizes",
       with(rows(), "b", ones({3, 6}), node("Concat", {"x", "b"}, {"y"}, axis(1))),
       {"Concat of 'y'", x, "'b' float32 [3,6]"}},
      {"no axis", with(rows(), "b", ones({2, 6}), node("Concat", {"x", "b"}, {"y"})), {"Concat of 'y'", "'axis'"}},
      {"far axis", with(rows(), node("Softmax", {"x"}, {"y"}, axis(2))), {"Softmax of 'y'", x, "axis 2"}},
      {"order",
       with(rows(), node("Transpose", {"x"}, {"y"}, {attribute("perm", Integers{0})})),
       {"Transpose of 'y'", x}},
      {"parts",
       with(rows(), "s", integers({4, 4}), node("Split", {"x", "s"}, {"y", "z"}, axis(1))),
       {"Split of 'y'", x, "'s' int64 [2]"}},
      {"padding",
       with(rows(), "p", integers({1, 1}), node("Pad", {"x", "p"}, {"y"})),
       {"Pad of 'y'", x, "'p' int64 [2]"}},
      {"squeezed", with(rows(), "a", integers({1}), node("Squeeze", {"x", "a"}, {"y"})), {"Squeeze of 'y'", x}},
      {"expanded", with(rows(), "s", integers({2, 7}), node("Expand", {"x", "s"}, {"y"})), {"Expand of 'y'", x}},
      {"gathered",
       with(rows(), "i", integers({0}), node("Gather", {"x", "i"}, {"y"}, axis(4))),
       {"Gather of 'y'", x, "axis 4"}},
      {"no step",
       with(rows(), "s", integers({0}), node("Slice", {"x", "s", "s", "s", "s"}, {"y"})),
       {"Slice of 'y'", x, "'s' int64 [1]"}},
      {"no input", with(rows(), node("Relu", {}, {"y"})), {"Relu of 'y'", "has no input 0"}},
  };
}

std::vector<Broken> of_files() {
  Model newer = with(rows(), node("Relu", {"x"}, {"y"}));
  newer.proto.opsets[""] = 99;
  Model texts = with(rows(), node("Relu", {"x"}, {"y"}));
  texts.proto.graph.inputs[0].element = 8;
  Model shapeless = with(rows(), node("Relu", {"x"}, {"y"}));
  shapeless.proto.graph.inputs[0].shape.reset();
  Model named;
  named.input("x", {"N", "length"}).output("y").add(node("Relu", {"x"}, {"y"}));
  Model wide = with(rows(), "w", ones({6}), node("Add", {"x", "w"}, {"y"}));
  wide.proto.graph.initializers[0].type = 12;
  Model torn = with(rows(), "w", ones({6}), node("Add", {"x", "w"}, {"y"}));
  torn.proto.graph.initializers[0].dims = {7};
  Model order = rows();
  order.add(node("Relu", {"a"}, {"y"})).add(node("Neg", {"x"}, {"a"}));
  return {
      {"operator", with(rows(), node("Swish2", {"x"}, {"y"})), {"Swish2 of 'y'", "LoadOptions{.operators"}},
      {"domain", with(rows(), node("com.x.Gate", {"x"}, {"y"})), {"com.x.Gate of 'y'", "LoadOptions{.operators"}},
      {"nothing makes it",
       with(rows(), node("Add", {"x", "z"}, {"y"})),
       {"Add of 'y'", "reads 'z'", "'x' float32 [2,6]"}},
      {"order", order, {"Relu of 'y'", "reads 'a'", "repair the file"}},
      {"output", with(rows(), node("Relu", {"x"}, {"z"})), {"nothing makes the output 'y'", "repair the file"}},
      {"operator set", newer, {"operator set 99", "convert it"}},
      {"element type of an input", texts, {"'x'", "string"}},
      {"no shape", shapeless, {"'x'", "no shape", "LoadOptions::shapes"}},
      {"symbolic size", named, {"'x'", "'length'", "LoadOptions::sizes"}},
      {"element type of weights", wide, {"'w'", "uint32"}},
      {"weights cut off", torn, {"'w'", "[7]"}},
      {"element type of a cast",
       with(rows(), node("Cast", {"x"}, {"y"}, {attribute("to", std::int64_t{8})})),
       {"Cast of 'y'", "string", "'x' float32 [2,6]"}},
  };
}

TEST_CASE("onnx: the message of a broken model names the fault and the way out", "[onnx]") {
  std::size_t count = 0;
  for (const auto& all : {of_layers(), of_shapes(), of_files()})
    for (const Broken& broken : all) {
      INFO(broken.fault);
      ++count;
      std::string text;
      try {
        broken.model.read();
      } catch (const onnx::OnnxError& error) {
        text = error.what();
        for (const onnx::Lack& lack : error.lacks()) CHECK(!lack.advice.empty());
      } catch (const FileError& error) {
        text = error.what();
      }
      CHECK(!text.empty());
      for (const std::string& word : broken.words) CHECK_THAT(text, Catch::ContainsSubstring(word));
    }
  CHECK(count >= 40);
}

}  // namespace
