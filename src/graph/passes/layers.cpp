// What follows a layer and is linear becomes part of its weight and bias: scales and shifts of its outputs, and sums of
// layers that read the same value, as in blocks that train several branches and run as one. Computed in float64.

#include "graph/passes/layers.hpp"

#include <algorithm>

#include "graph/passes/constants.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/graph/passes.hpp"
#include "tern/operators/conv.hpp"
#include "tern/operators/normalization.hpp"
#include "tern/tensor/create.hpp"

namespace tern::graph {

const Tensor* Layers::constant(int id) const {
  if (id < 0 || value(id).kind != Kind::constant || value(id).dtype != DType::float32) return nullptr;
  return &value(id).tensor;
}

const Node* Layers::only(int id) const {
  const auto made = maker_.find(id);
  const bool alone = id >= 0 && made != maker_.end() && uses_[static_cast<std::size_t>(id)] == 1;
  return alone ? &structure_.nodes[made->second] : nullptr;
}

bool Layers::has_weights(const Node& node) const {
  return node.by_batch.empty() && node.inputs.size() >= 2 && constant(node.inputs[1]) != nullptr &&
         (node.inputs.size() < 3 || node.inputs[2] < 0 || constant(node.inputs[2]) != nullptr);
}
bool Layers::is_conv(const Node& node) const {
  return node.op->name() == "conv2d" && has_weights(node) &&
         node.attributes.get<operators::Conv2dOptions>().activation == Activation::none;
}
bool Layers::is_linear(const Node& node) const {
  return node.op->name() == "linear" && has_weights(node) && node.attributes.get<Activation>() == Activation::none;
}
bool Layers::is_norm(const Node& node) const {
  if (node.op->name() != "batch_norm" || node.inputs.size() != 5 || !node.by_batch.empty()) return false;
  const auto& options = node.attributes.get<operators::BatchNormOptions>();
  const auto known = [&](int id) { return id < 0 || constant(id) != nullptr; };
  return !options.training && options.activation == Activation::none && value(node.inputs[0]).shape.size() == 4 &&
         std::all_of(node.inputs.begin() + 1, node.inputs.end(), known) && node.inputs[3] >= 0 && node.inputs[4] >= 0;
}

std::optional<Numbers> Layers::by_channel(int id, std::int64_t channels, std::int64_t behind) const {
  const Tensor* const tensor = constant(id);
  if (tensor == nullptr) return {};
  if (tensor->numel() == 1) return Numbers(static_cast<std::size_t>(channels), tensor->item());
  const std::int64_t at = tensor->rank() - 1 - behind;
  if (tensor->numel() != channels || at < 0 || tensor->size(at) != channels) return {};
  return tensor->values();
}
Numbers Layers::bias_of(const Node& layer, std::int64_t channels) const {
  if (layer.inputs.size() < 3 || layer.inputs[2] < 0) return Numbers(static_cast<std::size_t>(channels));
  return value(layer.inputs[2]).tensor.values();
}

void Layers::become(Node& node, const Node& layer, int source, const Numbers& weight, const Numbers& bias) {
  const auto made = [&](const char* name, const Numbers& numbers, const Shape& shape) {
    return add_constant(structure_, layer, name, tensor(numbers, shape).to(DType::float32));
  };
  std::vector<int> inputs = layer.inputs;
  inputs.resize(std::max<std::size_t>(inputs.size(), 3), -1);
  inputs[0] = source;
  if (!weight.empty()) inputs[1] = made("weight", weight, value(layer.inputs[1]).tensor.shape());
  inputs[2] = made("bias", bias, {static_cast<std::int64_t>(bias.size())});
  node.op = layer.op;
  node.attributes = layer.attributes;
  node.inputs = std::move(inputs);
  if (node.module.empty()) node.module = layer.module;
}

void merge_layers(Structure& structure) {
  const NoGrad no_grad;
  freeze(structure);
  join_linear(structure);
  Layers layers(structure);
  layers.run([&](Node& node) {
    const std::string_view name = node.op->name();
    if (name == "mul") fold_scale(layers, node);
    if (name != "add" && name != "sub") return;
    const double sign = name == "add" ? 1 : -1;
    if (!fold_shift(layers, node, sign)) merge_branches(layers, node, sign);
  });
  remove_dead(structure);
}

}  // namespace tern::graph
