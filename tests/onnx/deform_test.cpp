// Convolutions whose taps are moved, and attention with graphs inside.

#include "onnx/models.hpp"
#include "support/catch.hpp"

namespace {

using namespace tern;
namespace op = tern::operators;
using test::attribute;
using test::Integers;
using test::Model;
using test::node;
using test::sizes_of;

Tensor deformed(const std::vector<Tensor>& inputs) {
  Model model(22);
  std::vector<std::string> names;
  std::vector<Tensor> given;
  for (const Tensor& x : inputs) {
    names.push_back(x.defined() ? message("x", names.size()) : "");
    if (!x.defined()) continue;
    model.input(names.back(), sizes_of(x));
    given.push_back(x);
  }
  model.output("y").add(node("DeformConv", names, {"y"},
                             {attribute("group", std::int64_t{2}), attribute("offset_group", std::int64_t{2}),
                              attribute("strides", Integers{2, 1}), attribute("dilations", Integers{1, 2}),
                              attribute("pads", Integers{1, 2, 0, 1})}));
  return model.read().run(given)[0];
}

double apart(const Tensor& a, const Tensor& b) { return op::max(op::abs(a.detach() - b.detach())).item(); }

onnx::GraphProto body(const onnx::NodeProto& one) {
  onnx::GraphProto made;
  made.inputs = {Model::value("s", {}, DType::float32)};
  made.outputs = {Model::value("t", {}, DType::float32)};
  made.nodes = {one};
  return made;
}

}  // namespace

TEST_CASE("onnx: a deformable convolution without offsets is a convolution", "[onnx]") {
  Generator generator(2);
  const Tensor x = randn({2, 4, 6, 7}, generator), weight = randn({6, 2, 3, 2}, generator),
               bias = randn({6}, generator);
  const Tensor plain =
      op::conv2d(x, weight, bias,
                 {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .end_padding = Pair{0, 1}, .groups = 2});
  const std::int64_t oh = plain.size(2), ow = plain.size(3), taps = 2 * 6;
  CHECK(apart(deformed({x, weight, zeros({2, 2 * taps, oh, ow}), bias}), plain) < 1e-5);
  const Tensor half = full({2, taps, oh, ow}, 0.5);
  CHECK(apart(deformed({x, weight, zeros({2, 2 * taps, oh, ow}), {}, half}),
              op::conv2d(
                  x, weight, {},
                  {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .end_padding = Pair{0, 1}, .groups = 2}) *
                  0.5) < 1e-5);
  // All taps one row further down: the image moved up.
  const Tensor down =
      op::reshape(op::expand(op::reshape(tern::tensor({1.0F, 0.0F}), {1, 1, 2, 1, 1}), {2, taps, 2, oh, ow}),
                  {2, 2 * taps, oh, ow});
  const Tensor moved = op::pad(op::slice(x, 2, 1, 6), {{2, 0, 1}}, 0);
  const Tensor expected = deformed({moved, weight, zeros({2, 2 * taps, oh, ow}), bias});
  const Tensor found = deformed({x, weight, down, bias});
  CHECK(apart(op::slice(found, 2, 1, oh), op::slice(expected, 2, 1, oh)) < 1e-5);  // the first row sees the padding
  CHECK_THROWS_WITH(deformed({x, weight, zeros({2, 2, oh, ow}), bias}),
                    Catch::ContainsSubstring("DeformConv of 'y' has 2 groups"));
}

TEST_CASE("onnx: attention with graphs for scores and probabilities", "[onnx]") {
  Generator generator(3);
  const Tensor q = randn({1, 4, 3, 2}, generator), k = randn({1, 2, 5, 2}, generator),
               v = randn({1, 2, 5, 3}, generator);
  const auto model = [&](const onnx::NodeProto& inside) {
    Model made(26);
    made.proto.opsets["ai.onnx.preview"] = 1;
    made.input("q", sizes_of(q)).input("k", sizes_of(k)).input("v", sizes_of(v)).output("y");
    made.initializer("mask", tern::tensor({0.0F, 0.0F, 0.0F, 0.0F, -1e30F}));
    return made.add(node("ai.onnx.preview.FlexAttention", {"q", "k", "v"}, {"y"},
                         {attribute("scale", 0.5F), attribute("score_mod", body(inside)),
                          attribute("prob_mod", body(node("Add", {"s", "s"}, {"t"})))}));
  };
  const auto heads = [](const Tensor& x) { return op::reshape(op::stack({x, x}, 2), {1, 4, x.size(2), x.size(3)}); };
  const auto first = [](const Tensor& x) { return op::slice(x, 2, 0, 4); };
  const Tensor expected = op::scaled_dot_product_attention(q, first(heads(k)), first(heads(v)), {.scale = 0.5}) * 2;
  CHECK(apart(model(node("Add", {"s", "mask"}, {"t"})).read().run({q, k, v})[0], expected) < 1e-5);
  CHECK_THROWS_WITH(model(node("Transpose", {"s"}, {"t"})).read(),
                    Catch::ContainsSubstring("'score_mod' that makes float32 [5,3,4,1]") &&
                        Catch::ContainsSubstring("it keeps dtype and shape"));
}
