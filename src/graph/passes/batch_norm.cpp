// The scale of a batch normalisation goes into the weight before it, the shift into that layer's bias.

#include <algorithm>
#include <unordered_map>

#include "graph/passes/constants.hpp"
#include "graph/passes/statistics.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/graph/passes.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/conv.hpp"
#include "tern/operators/normalization.hpp"
#include "tern/tensor/create.hpp"

namespace tern::graph {

namespace {

/// The nodes that make values.
using Makers = std::unordered_map<int, std::size_t>;

/// The constant behind a value, from before it was rounded to 16 bits; null if there is none.
const Tensor* constant_of(const Structure& structure, const Makers& makers, int id) {
  if (const auto made = makers.find(id); made != makers.end() && structure.nodes[made->second].op->name() == "cast")
    id = structure.nodes[made->second].inputs[0];
  return structure.values[id].kind == Kind::constant ? &structure.values[id].tensor : nullptr;
}

/// What layer and normalisation do with their input, as one layer.
struct Folded {
  Tensor weight, bias;
};

Folded folded(const Structure& structure, const Makers& makers, const Node& layer, const Node& norm) {
  const auto of = [&](const Node& node, std::size_t i) {
    if (i >= node.inputs.size() || node.inputs[i] < 0) return Tensor{};
    return constant_of(structure, makers, node.inputs[i])->to(DType::float64);
  };
  const Tensor weight = of(layer, 1), bias = of(layer, 2);
  const auto [scales, shifts] = scale_shift(norm, [&](std::size_t i) { return of(norm, i); });
  const Tensor scale = tensor(scales, {weight.size(0)}), shift = tensor(shifts, {weight.size(0)});
  Shape along = Shape::filled(weight.rank(), 1);
  along[0] = weight.size(0);
  const Tensor rest = bias.defined() ? operators::add(operators::mul(bias, scale), shift) : shift;
  const DType dtype = structure.values[layer.inputs[1]].dtype;
  return {operators::mul(weight, scale.reshape(along)).to(dtype), rest.to(dtype)};
}

bool is_layer(const Node& node) {
  if (node.op->name() == "conv2d")
    return node.attributes.get<operators::Conv2dOptions>().activation == Activation::none;
  return node.op->name() == "linear" && node.attributes.get<Activation>() == Activation::none;
}

/// Whether the inputs [from, to) are constants or left out.
bool holds(const Structure& structure, const Makers& makers, const Node& node, std::size_t from, std::size_t to = 5) {
  for (std::size_t i = from; i < std::min(to, node.inputs.size()); ++i)
    if (const int id = node.inputs[i]; id >= 0 && constant_of(structure, makers, id) == nullptr) return false;
  return true;
}

}  // namespace

void freeze(Structure& structure) {
  for (Value& value : structure.values)
    if (value.kind == Kind::parameter || value.kind == Kind::buffer) {
      value.kind = Kind::constant;
      value.tensor = value.tensor.detach().clone();  // training goes on with the module's own
    }
}

void fold_batch_norm(Structure& structure) {
  const NoGrad no_grad;
  freeze(structure);
  const std::vector<int> uses = structure.uses();
  Makers maker;
  std::vector<bool> gone(structure.nodes.size());
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    Node& node = structure.nodes[i];
    for (const int id : node.results) maker[id] = i;
    const std::size_t inputs = node.inputs.size();
    if (node.op->name() != "batch_norm" || inputs < 5) continue;
    const int added = inputs > 5 ? node.inputs[5] : -1;
    const auto& options = node.attributes.get<operators::BatchNormOptions>();
    const auto made = maker.find(node.inputs[0]);
    if (options.training || made == maker.end() || uses[node.inputs[0]] != 1) continue;
    Node& layer = structure.nodes[made->second];
    if (!is_layer(layer) || !layer.by_batch.empty() || !holds(structure, maker, layer, 1) ||
        !holds(structure, maker, node, 1))
      continue;
    if (added >= 0 && layer.op->name() != "conv2d") continue;
    // A linear layer's features are the last dimension, a norm's the second: the same for [N, features] alone.
    if (layer.op->name() == "linear" && structure.values[layer.results[0]].shape.size() != 2) continue;
    const Folded fold = folded(structure, maker, layer, node);
    const int weight = add_constant(structure, node, "folded_weight", fold.weight),
              bias = add_constant(structure, node, "folded_bias", fold.bias);
    const Activation activation = options.activation;
    node.inputs = {layer.inputs[0], weight, bias};
    if (added >= 0) node.inputs.push_back(added);
    node.op = added >= 0 ? &operators::op("conv2d_add") : layer.op;
    node.attributes = layer.attributes;
    if (layer.op->name() == "conv2d") {
      operators::Conv2dOptions conv = node.attributes.get<operators::Conv2dOptions>();
      conv.activation = activation;
      node.attributes = node.attributes.with(conv);
    } else {
      node.attributes = node.attributes.with(activation);
    }
    gone[made->second] = true;
  }
  std::size_t i = 0;
  std::erase_if(structure.nodes, [&](const Node&) { return gone[i++]; });
  remove_dead(structure);
}

}  // namespace tern::graph
