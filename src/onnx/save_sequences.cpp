// RNN, LSTM and GRU, whose gates have another order in ONNX; thresholds, gates and shifts.

#include "onnx/writer.hpp"
#include "tern/operators/bits.hpp"
#include "tern/operators/recurrent.hpp"
#include "tern/operators/thresholds.hpp"
#include "tern/tensor/create.hpp"

namespace tern::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

/// Equal blocks of rows in another order.
std::string reordered(const Step& step, const std::string& rows, const Integers& order) {
  if (order.size() < 2) return rows;
  Writer::Names blocks, turned;
  for (std::size_t i = 0; i < order.size(); ++i) blocks.push_back(step.out.fresh());
  step.out.add("Split", {rows}, blocks,
               {make_attribute("axis", std::int64_t{0}),
                make_attribute("num_outputs", static_cast<std::int64_t>(order.size()))});
  for (const std::int64_t from : order) turned.push_back(blocks[static_cast<std::size_t>(from)]);
  return step.out.node("Concat", turned, {make_attribute("axis", std::int64_t{0})});
}

/// The inputs of a layer by their places in the operator; -1: it has none.
struct Places {
  int hidden = 1, cell = -1, weight = 2, recurrent = 3, bias = 4, recurrent_bias = 5, peepholes = -1, lengths = 6;
};

/// `order`: the gates of ONNX by their numbers in the operator.
void layer(const Step& step, const char* type, const Integers& order, const Places& at, bool reverse, double clip,
           std::vector<AttributeProto> attributes) {
  const auto has = [&](int place) { return place >= 0 && step.has(static_cast<std::size_t>(place)); };
  const auto input = [&](int place) { return step.inputs[static_cast<std::size_t>(place)]; };
  const std::string first = step.out.integers({0});
  const auto front = [&](const std::string& value) { return step.out.node("Unsqueeze", {value, first}); };
  const std::int64_t h = step.size(static_cast<std::size_t>(at.recurrent), 1);
  const auto gates = static_cast<std::int64_t>(order.size());
  Writer::Names inputs{step.inputs[0], front(reordered(step, input(at.weight), order)),
                       front(reordered(step, input(at.recurrent), order))};
  if (has(at.bias) || has(at.recurrent_bias)) {
    const auto bias = [&](int place) {
      return has(place) ? reordered(step, input(place), order)
                        : step.out.constant(full({gates * h}, 0, step.value(0).dtype));
    };
    inputs.push_back(front(
        step.out.node("Concat", {bias(at.bias), bias(at.recurrent_bias)}, {make_attribute("axis", std::int64_t{0})})));
  } else {
    inputs.emplace_back();
  }
  inputs.push_back(has(at.lengths)
                       ? step.out.node("Cast", {input(at.lengths)}, {make_attribute("to", element_of(DType::int32))})
                       : "");
  inputs.push_back(has(at.hidden) ? front(input(at.hidden)) : "");
  if (at.cell >= 0) {
    inputs.push_back(has(at.cell) ? front(input(at.cell)) : "");
    inputs.push_back(has(at.peepholes) ? front(reordered(step, input(at.peepholes), {0, 2, 1})) : "");
  }
  while (inputs.back().empty()) inputs.pop_back();
  attributes.push_back(make_attribute("hidden_size", h));
  if (reverse) attributes.push_back(make_attribute("direction", "reverse"));
  if (clip > 0) attributes.push_back(make_attribute("clip", clip));
  Writer::Names made;
  for (std::size_t i = 0; i < step.results.size(); ++i) made.push_back(step.out.fresh());
  step.out.add(type, inputs, made, std::move(attributes));
  // Outputs are [steps, directions, batch, hidden], states [directions, batch, hidden].
  for (std::size_t i = 0; i < made.size(); ++i)
    step.out.add("Squeeze", {made[i], step.out.integers({i == 0 ? 1 : 0})}, {step.results[i]});
}

void rnn(const Step& step) {
  const auto options = step.attribute<op::RnnOptions>();
  const char* name = options.activation == Activation::tanh      ? "Tanh"
                     : options.activation == Activation::relu    ? "Relu"
                     : options.activation == Activation::sigmoid ? "Sigmoid"
                                                                 : "";
  if (*name == 0) throw Refusal("has an activation that ONNX's RNN lacks", "tanh, relu or sigmoid");
  AttributeProto activations;
  activations.name = "activations";
  activations.type = AttributeProto::texts;
  activations.strings = {name};
  layer(step, "RNN", {0}, {}, options.reverse, options.clip, {activations});
}
void lstm(const Step& step) {
  const auto options = step.attribute<op::LstmOptions>();
  const Places at{.cell = 2, .weight = 3, .recurrent = 4, .bias = 5, .recurrent_bias = 6, .peepholes = 7, .lengths = 8};
  std::vector<AttributeProto> attributes;
  if (options.input_forget) attributes.push_back(make_attribute("input_forget", std::int64_t{1}));
  layer(step, "LSTM", {0, 3, 1, 2}, at, options.reverse, options.clip, std::move(attributes));
}
void gru(const Step& step) {
  const auto options = step.attribute<op::GruOptions>();
  layer(step, "GRU", {1, 0, 2}, {}, options.reverse, options.clip,
        {make_attribute("linear_before_reset", std::int64_t{options.reset_after})});
}

std::string number(const Step& step, double value) { return step.out.number(value, step.value(0).dtype); }

void shrunk(const Step& step, double lambda, double bias) {
  step.out.add("Shrink", step.inputs, step.results, {make_attribute("lambd", lambda), make_attribute("bias", bias)});
}

template <bool left>
void shift(const Step& step) {
  if (step.value(0).dtype == DType::uint8)
    return step.out.add("BitShift", step.inputs, step.results, {make_attribute("direction", left ? "LEFT" : "RIGHT")});
  throw Refusal(message("shifts ", step.value(0).dtype), "ONNX shifts unsigned integers");
}

}  // namespace

void append_written_sequences(EmitTable& table) {
  table["rnn"] = rnn;
  table["lstm"] = lstm;
  table["gru"] = gru;
  table["bitwise_left_shift"] = shift<true>;
  table["bitwise_right_shift"] = shift<false>;
  table["threshold"] = [](const Step& step) {
    const std::string above = step.out.node("Greater", {step.inputs[0], number(step, step.attribute<double>(0))});
    step.out.add("Where", {above, step.inputs[0], number(step, step.attribute<double>(1))}, step.results);
  };
  table["hardtanh"] = [](const Step& step) {
    step.out.add("Clip",
                 {step.inputs[0], number(step, step.attribute<double>(0)), number(step, step.attribute<double>(1))},
                 step.results);
  };
  table["shrink"] = [](const Step& step) { shrunk(step, step.attribute<double>(0), step.attribute<double>(1)); };
  table["hardshrink"] = [](const Step& step) { shrunk(step, step.attribute<double>(), 0); };
  table["softshrink"] = [](const Step& step) { shrunk(step, step.attribute<double>(), step.attribute<double>()); };
  table["tanhshrink"] = [](const Step& step) {
    step.out.add("Sub", {step.inputs[0], step.out.node("Tanh", step.inputs)}, step.results);
  };
  table["glu"] = [](const Step& step) {
    const Writer::Names halves{step.out.fresh(), step.out.fresh()};
    step.out.add(
        "Split", step.inputs, halves,
        {make_attribute("axis", step.attribute<std::int64_t>()), make_attribute("num_outputs", std::int64_t{2})});
    step.out.add("Mul", {halves[0], step.out.node("Sigmoid", {halves[1]})}, step.results);
  };
  table["isfinite"] = [](const Step& step) {
    const std::string not_finite =
        step.out.node("Or", {step.out.node("IsInf", step.inputs), step.out.node("IsNaN", step.inputs)});
    step.out.add("Not", {not_finite}, step.results);
  };
  table["mul_add"] = [](const Step& step) {
    step.out.add("Add", {step.out.node("Mul", {step.inputs[0], step.inputs[1]}), step.inputs[2]}, step.results);
  };
  table["lerp"] = [](const Step& step) {
    const std::string way = step.out.node("Sub", {step.inputs[1], step.inputs[0]});
    step.out.add("Add", {step.inputs[0], step.out.node("Mul", {step.inputs[2], way})}, step.results);
  };
}

}  // namespace tern::onnx
