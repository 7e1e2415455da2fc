// Further kinds of faults, one for each model: the message names the node, its operator, the tensors with their shapes,
// and says what to do.

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

/// x of these sizes, constants, and one node "at" that makes y of x and them.
Model one(const std::vector<std::string>& sizes, const std::string& type, const std::vector<Tensor>& constants,
          std::vector<onnx::AttributeProto> attributes = {}, DType dtype = DType::float32, std::int64_t opset = 20) {
  Model model(opset);
  model.input("x", sizes, dtype).output("y");
  std::vector<std::string> inputs{"x"};
  for (const Tensor& each : constants) {
    inputs.push_back(each.defined() ? message("c", inputs.size()) : "");
    if (each.defined()) model.initializer(inputs.back(), each);
  }
  onnx::NodeProto made = node(type, inputs, {"y"}, std::move(attributes));
  made.name = "at";
  return model.add(made);
}

onnx::GraphProto body(const std::vector<std::string>& inputs, const std::vector<onnx::NodeProto>& nodes,
                      const std::vector<std::string>& outputs) {
  onnx::GraphProto made;
  for (const std::string& name : inputs) made.inputs.push_back(Model::value(name, {}, DType::float32));
  for (const std::string& name : outputs) made.outputs.push_back(Model::value(name, {}, DType::float32));
  made.nodes = nodes;
  return made;
}

std::vector<Broken> of_operators() {
  const Tensor none;
  return {
      {"einsum",
       one({"2", "3"}, "Einsum", {ones({4, 5})}, {attribute("equation", std::string("ij,jk->ik"))}),
       {"Einsum of 'at'", "'x' float32 [2,3]", "'c1' float32 [4,5]", "j"}},
      {"einsum's letters",
       one({"2", "3"}, "Einsum", {}, {attribute("equation", std::string("i?->i"))}),
       {"Einsum of 'at'", "i?->i"}},
      {"one axis twice", one({"2", "3"}, "ReduceSum", {integers({0, -2})}), {"ReduceSum of 'at'", "'x' float32 [2,3]"}},
      {"far reduction", one({"2", "3"}, "ReduceMax", {integers({2})}), {"ReduceMax of 'at'", "'x' float32 [2,3]", "2"}},
      {"groups of channels",
       one({"1", "6", "4"}, "GroupNormalization", {ones({6}), ones({6})}, {attribute("num_groups", std::int64_t{4})},
           DType::float32, 21),
       {"GroupNormalization of 'at'", "'x' float32 [1,6,4]", "4"}},
      {"scale of a layer",
       one({"2", "3", "4"}, "LayerNormalization", {ones({3})}),
       {"LayerNormalization of 'at' broadcasts [3] to [2,3,4]", "'x' float32 [2,3,4]", "'c1' float32 [3]"}},
      {"scale that widens",
       one({"1", "3", "4"}, "RMSNormalization", {ones({2, 3, 4})}, {}, DType::float32, 23),
       {"RMSNormalization of 'at' broadcasts [2,3,4] to [1,3,4]", "'x' float32 [1,3,4]"}},
      {"slopes that widen", one({"1", "3"}, "PRelu", {ones({2, 3})}), {"PRelu of 'at' broadcasts [2,3] to [1,3]"}},
      {"addend that widens",
       one({"1", "3"}, "Gemm", {ones({3, 4}), ones({2, 4})}),
       {"Gemm of 'at' broadcasts [2,4] to [1,4]", "'c1' float32 [3,4]"}},
      {"blocks",
       one({"1", "6", "2", "2"}, "DepthToSpace", {}, {attribute("blocksize", std::int64_t{2})}),
       {"DepthToSpace of 'at' has blocks of 2", "[1,6,2,2]", "multiple of their square"}},
      {"many of few", one({"2", "3"}, "TopK", {integers({7})}), {"TopK of 'at'", "'x' float32 [2,3]", "7"}},
      {"no classes",
       one({"2", "3"}, "OneHot", {integers({-2}), tern::tensor({0.0F, 1.0F})}),
       {"OneHot of 'at'", "'x' float32 [2,3]", "-2"}},
      {"grid",
       one({"1", "2", "4", "4"}, "GridSample", {ones({1, 3, 3, 3})}),
       {"GridSample of 'at'", "'x' float32 [1,2,4,4]", "'c1' float32 [1,3,3,3]"}},
      {"index of a part",
       one({"2", "3"}, "GatherND", {tern::tensor<std::int64_t>({0, 1, 2}).reshape({1, 3})}),
       {"GatherND of 'at'", "'x' float32 [2,3]", "'c1' int64 [1,3]"}},
      {"source",
       one({"2", "3"}, "ScatterElements", {zeros({1, 2}, DType::int64), ones({2, 2})}),
       {"ScatterElements of 'at'", "'c1' int64 [1,2]", "'c2' float32 [2,2]"}},
      {"joining",
       one({"2", "3"}, "ScatterElements", {zeros({1, 2}, DType::int64), ones({1, 2})},
           {attribute("reduction", std::string("mean"))}),
       {"ScatterElements of 'at'", "mean"}},
      {"condition",
       one({"2", "3"}, "Where", {ones({2, 3}), ones({2, 3})}),
       {"Where of 'at'", "'x' float32 [2,3]", "bool"}},
      {"integers", one({"2", "3"}, "Gelu", {}, {}, DType::int64), {"Gelu of 'at'", "'x' int64 [2,3]"}},
      {"dtypes",
       one({"2", "3"}, "Add", {ones({3}, DType::float64)}),
       {"Add of 'at'", "'x' float32 [2,3]", "'c1' float64 [3]"}},
      {"heads",
       one({"1", "2", "6"}, "Attention", {ones({1, 2, 6}), ones({1, 2, 6})},
           {attribute("q_num_heads", std::int64_t{4}), attribute("kv_num_heads", std::int64_t{4})}, DType::float32, 23),
       {"Attention of 'at'", "'x' float32 [1,2,6]", "4 heads"}},
      {"scales",
       one({"2", "6"}, "DequantizeLinear", {ones({5})}, {attribute("axis", std::int64_t{1})}, DType::uint8),
       {"DequantizeLinear of 'at' has scales", "axis 1", "'x' uint8 [2,6]", "'c1' float32 [5]"}},
      {"scales that widen",
       one({"1", "6"}, "QuantizeLinear", {ones({5})}, {attribute("axis", std::int64_t{0})}),
       {"QuantizeLinear of 'at' has scales", "axis 0", "'x' float32 [1,6]", "'c1' float32 [5]"}},
      {"blocks of scales",
       one({"4", "6"}, "DequantizeLinear", {ones({4, 2})},
           {attribute("axis", std::int64_t{1}), attribute("block_size", std::int64_t{2})}, DType::uint8, 21),
       {"DequantizeLinear of 'at' has scales", "blocks of 2", "'c1' float32 [4,2]"}},
      {"labels",
       one({"2", "3"}, "SoftmaxCrossEntropyLoss", {zeros({3}, DType::int64)}),
       {"SoftmaxCrossEntropyLoss of 'at' has scores [2,3] and labels [3]", "'c1' int64 [3]"}},
      {"few labels",
       one({"4", "3"}, "SoftmaxCrossEntropyLoss", {zeros({2}, DType::int64)}),
       {"SoftmaxCrossEntropyLoss of 'at' has scores [4,3] and labels [2]", "without dimension 1"}},
      {"weights of classes",
       one({"2", "3"}, "SoftmaxCrossEntropyLoss", {zeros({2}, DType::int64), ones({5})}),
       {"SoftmaxCrossEntropyLoss of 'at' has weights [5] for 3 classes"}},
      {"huge blocks",
       one({"1", "6", "2", "2"}, "DepthToSpace", {}, {attribute("blocksize", std::int64_t{1} << 32)}),
       {"DepthToSpace of 'at' has blocks of 4294967296"}},
      {"mode",
       one({"1", "4", "2", "2"}, "DepthToSpace", {},
           {attribute("blocksize", std::int64_t{2}), attribute("mode", std::string("RGB"))}),
       {"DepthToSpace of 'at' has mode 'RGB'", "DCR or CRD"}},
      {"positions",
       one({"4"}, "MaxUnpool", {zeros({4}, DType::int64)}, {attribute("kernel_shape", Integers{2})}),
       {"MaxUnpool of 'at' has an input [4]", "[N, C, ...]"}},
      {"signal", one({"1", "8", "3"}, "DFT", {}), {"DFT of 'at'", "'x' float32 [1,8,3]"}},
      {"square", one({"2", "3", "4"}, "Det", {}), {"Det of 'at'", "'x' float32 [2,3,4]"}},
      {"columns",
       one({"1", "5", "4"}, "Col2Im", {integers({4, 4}), integers({2, 2})}),
       {"Col2Im of 'at'", "'x' float32 [1,5,4]"}},
      {"boxes",
       one({"1", "2", "8", "8"}, "RoiAlign", {ones({3, 5}), zeros({3}, DType::int64)}),
       {"RoiAlign of 'at'", "'c1' float32 [3,5]"}},
  };
}

std::vector<Broken> of_graphs() {
  Model branch(18);
  branch.input("x", {"2"}).output("y").initializer("go", full({}, true, DType::boolean));
  branch.add(node("If", {"go"}, {"y"},
                  {attribute("then_branch", body({}, {node("Relu", {"z"}, {"t"})}, {"t"})),
                   attribute("else_branch", body({}, {node("Neg", {"x"}, {"e"})}, {"e"}))}));
  Model half(18);
  half.input("x", {"2"}).output("y").initializer("go", full({}, true, DType::boolean));
  half.add(node("If", {"go"}, {"y"}, {attribute("then_branch", body({}, {node("Relu", {"x"}, {"t"})}, {"t"}))}));
  half.proto.graph.nodes[0].attributes[0].name = "else_branch";
  Model decides(18);
  decides.input("x", {"2"}).input("go", {}, DType::boolean).output("y");
  decides.add(node("If", {"go"}, {"y"},
                   {attribute("then_branch", body({}, {node("Relu", {"x"}, {"t"})}, {"t"})),
                    attribute("else_branch", body({}, {node("Neg", {"x"}, {"e"})}, {"e"}))}));
  Model loop(18);
  loop.input("x", {"2"}).output("y").initializer("n", scalar<std::int64_t>(2));
  loop.add(node("Loop", {"n", "", "x"}, {"y"}, {attribute("body", body({"i", "on"}, {}, {"on", "i"}))}));
  Model scan(18);
  scan.input("x", {"2", "3"}).output("y");
  scan.add(node("Scan", {"x"}, {"y"}, {attribute("body", body({"r"}, {node("Neg", {"r"}, {"q"})}, {"q"}))}));
  Model external;
  external.input("x", {"2"}).output("y").initializer("w", ones({2}));
  external.proto.graph.initializers[0].external = true;
  external.proto.graph.initializers[0].place["location"] = "../w.bin";
  external.add(node("Add", {"x", "w"}, {"y"}));
  Model twice;
  twice.input("x", {"2"}).output("y");
  twice.add(node("Relu", {"x"}, {"y"})).add(node("Neg", {"x"}, {"y"}));
  return {
      {"value of a branch", branch, {"Relu of 't'", "'z'", "nothing before it makes"}},
      {"no branch", half, {"If of 'y'", "then_branch"}},
      {"branch by a value", decides, {"If of 'y'", "'go' bool []", "LoadOptions::constants"}},
      {"results of a body", loop, {"Loop of 'y'", "2 inputs"}},
      {"no number of scanned inputs", scan, {"Scan of 'y'", "num_scan_inputs"}},
      {"data elsewhere", external, {"'w'", "../w.bin"}},
      {"one name twice", twice, {"makes 'y' twice", "repair the file"}},
  };
}

}  // namespace

TEST_CASE("onnx: messages about further broken models name what is wrong and what to do", "[onnx]") {
  for (const auto& all : {of_operators(), of_graphs()})
    for (const Broken& broken : all) {
      INFO(broken.fault);
      std::string text;
      try {
        broken.model.read();
      } catch (const onnx::OnnxError& error) {
        text = error.what();
        for (const onnx::Lack& lack : error.lacks()) CHECK(!lack.advice.empty());
      } catch (const FileError& error) {
        text = error.what();
      }
      INFO(text);
      CHECK(!text.empty());
      for (const std::string& word : broken.words) CHECK_THAT(text, Catch::ContainsSubstring(word));
    }
}
