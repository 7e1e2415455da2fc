// RNN, LSTM and GRU: ONNX has directions in one tensor, and other orders of gates.

#include "tern/operators/recurrent.hpp"

#include <algorithm>

#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

/// The inputs of one direction.
struct Direction {
  Tensor weight = {}, recurrent = {}, bias = {}, recurrent_bias = {}, hidden = {}, cell = {}, peepholes = {};
  bool reverse = false;
};

/// Row blocks of `size` rows in another order.
Tensor reordered(const Tensor& rows, std::int64_t size, const Integers& order) {
  if (!rows.defined()) return rows;
  std::vector<Tensor> blocks;
  for (const std::int64_t from : order) blocks.push_back(op::slice(rows, 0, from * size, (from + 1) * size));
  return op::cat(blocks, 0);
}

struct Layer {
  std::int64_t hidden = 0;
  bool batch_first = false;
  Tensor x = {}, lengths = {};  // x [steps, batch, inputs]
  std::vector<Direction> directions = {};
  double clip = 0;
};

/// Takes the inputs apart. `order` is that of the gates, by their numbers in ONNX.
Layer layer_of(const Call& call, const Integers& order) {
  Layer layer{.hidden = call.integer("hidden_size"),
              .batch_first = call.integer("layout", 0) != 0,
              .x = call.input(0),
              .clip = call.number("clip", 0)};
  const std::string direction = call.text("direction", "forward");
  const bool both = direction == "bidirectional";
  if (!both && direction != "forward" && direction != "reverse")
    call.refuse(message("has direction '", direction, "'"), "forward, reverse or bidirectional");
  const auto gates = static_cast<std::int64_t>(order.size());
  const std::int64_t h = layer.hidden, count = both ? 2 : 1;
  const Tensor &weight = call.input(1), &recurrent = call.input(2);
  const bool fit = layer.x.rank() == 3 && weight.rank() == 3 && recurrent.rank() == 3 && weight.size(0) == count &&
                   h > 0 && weight.size(1) == gates * h && recurrent.size(1) == gates * h && recurrent.size(2) == h;
  if (!fit)
    call.refuse(message("has weights ", weight.shape(), " and ", recurrent.shape(), " for ", h, " hidden units"),
                "repair the file");
  if (layer.batch_first) layer.x = op::transpose(layer.x, 0, 1);
  // Sequences that all have the whole length need no lengths.
  if (call.has(4)) {
    const bool whole = call.knows(4) && std::ranges::all_of(call.known_integers(4), [&](std::int64_t length) {
                         return length == layer.x.size(0);
                       });
    if (!whole) layer.lengths = op::cast(call.input(4), DType::int64);
  }
  const auto state = [&](int input, std::int64_t d) -> Tensor {
    if (!call.has(input)) return {};
    const int dim = layer.batch_first ? 1 : 0;
    return op::squeeze(op::slice(call.input(input), dim, d, d + 1), {dim});
  };
  const auto slice = [&](int input, std::int64_t d) -> Tensor {
    if (!call.has(input)) return {};
    return op::squeeze(op::slice(call.input(input), 0, d, d + 1), {0});
  };
  for (std::int64_t d = 0; d < count; ++d) {
    Direction one{.reverse = d == 1 || direction == "reverse"};
    one.weight = reordered(slice(1, d), h, order);
    one.recurrent = reordered(slice(2, d), h, order);
    if (const Tensor bias = slice(3, d); bias.defined()) {
      one.bias = reordered(op::slice(bias, 0, 0, gates * h), h, order);
      one.recurrent_bias = reordered(op::slice(bias, 0, gates * h, 2 * gates * h), h, order);
    }
    one.hidden = state(5, d);
    if (call.type() == "LSTM") {
      one.cell = state(6, d);
      one.peepholes = reordered(slice(7, d), h, {0, 2, 1});  // (i, o, f) as (i, f, o)
    }
    layer.directions.push_back(std::move(one));
  }
  return layer;
}

/// Only the usual activations have an operator.
void check_activations(const Call& call, const std::vector<std::string>& usual) {
  call.ignore({"activation_alpha", "activation_beta"});
  const std::vector<std::string> given = call.texts("activations");
  for (std::size_t i = 0; i < given.size(); ++i) {
    std::string name = given[i];
    std::ranges::transform(name, name.begin(),
                           [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
    if (name != usual[i % usual.size()])
      call.refuse(message("has activation '", given[i], "'"), "only the usual activations are supported");
  }
}

/// Outputs [steps, directions, batch, hidden] and last states [directions, batch, hidden], or with the batch first.
Results joined(const Layer& layer, const std::vector<std::vector<Tensor>>& of_directions) {
  std::vector<std::vector<Tensor>> parts(of_directions[0].size());
  for (const std::vector<Tensor>& each : of_directions)
    for (std::size_t i = 0; i < each.size(); ++i) parts[i].push_back(each[i]);
  Results results;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor all = op::stack(parts[i], i == 0 ? 1 : 0);
    if (!layer.batch_first)
      results.push_back(all);
    else
      results.push_back(i == 0 ? op::permute(all, {2, 0, 1, 3}) : op::transpose(all, 0, 1));
  }
  return results;
}

Results rnn(const Call& call) {
  const std::vector<std::string> given = call.texts("activations");
  Activation activation = Activation::tanh;
  if (!given.empty()) {
    if (given[0] == "Relu") activation = Activation::relu;
    if (given[0] == "Sigmoid") activation = Activation::sigmoid;
  }
  const std::string name = activation == Activation::relu      ? "relu"
                           : activation == Activation::sigmoid ? "sigmoid"
                                                               : "tanh";
  check_activations(call, {name});
  const Layer layer = layer_of(call, {0});
  std::vector<std::vector<Tensor>> all;
  for (const Direction& each : layer.directions)
    all.push_back(op::rnn(layer.x, each.hidden, each.weight, each.recurrent, each.bias, each.recurrent_bias,
                          layer.lengths, {.activation = activation, .reverse = each.reverse, .clip = layer.clip}));
  return joined(layer, all);
}

Results lstm(const Call& call) {
  check_activations(call, {"sigmoid", "tanh", "tanh"});
  const bool coupled = call.integer("input_forget", 0) != 0;
  const Layer layer = layer_of(call, {0, 2, 3, 1});  // (i, o, f, c) as (i, f, g, o)
  std::vector<std::vector<Tensor>> all;
  for (const Direction& each : layer.directions)
    all.push_back(op::lstm(layer.x, each.hidden, each.cell, each.weight, each.recurrent, each.bias, each.recurrent_bias,
                           each.peepholes, layer.lengths,
                           {.reverse = each.reverse, .clip = layer.clip, .input_forget = coupled}));
  return joined(layer, all);
}

Results gru(const Call& call) {
  check_activations(call, {"sigmoid", "tanh"});
  const bool reset_after = call.integer("linear_before_reset", 0) != 0;
  const Layer layer = layer_of(call, {1, 0, 2});  // (z, r, h) as (r, z, n)
  std::vector<std::vector<Tensor>> all;
  for (const Direction& each : layer.directions)
    all.push_back(op::gru(layer.x, each.hidden, each.weight, each.recurrent, each.bias, each.recurrent_bias,
                          layer.lengths, {.reverse = each.reverse, .clip = layer.clip, .reset_after = reset_after}));
  return joined(layer, all);
}

}  // namespace

void append_recurrent(Table& table) {
  table["RNN"] = rnn;
  table["LSTM"] = lstm;
  table["GRU"] = gru;
}

}  // namespace tern::onnx
