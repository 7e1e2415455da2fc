#include <algorithm>

#include "graph/passes/layers.hpp"

namespace tern::graph {

// layer(x) * constant, or permute(layer(x)) * constant.
bool fold_scale(Layers& layers, Node& node) {
  for (const std::size_t side : {0U, 1U}) {
    const Node* made = layers.only(node.inputs[side]);
    if (made == nullptr || layers.value(node.inputs[side]).shape != layers.value(node.results[0]).shape) continue;
    std::int64_t behind = made->op->name() == "linear" ? 0 : 2;
    const Node* moved = nullptr;
    if (made->op->name() == "permute" && made->by_batch.empty()) {
      const auto& order = made->attributes.get<std::vector<std::int64_t>>();
      const auto rank = static_cast<std::int64_t>(order.size());
      const auto last = std::find_if(order.begin(), order.end(), [&](auto d) { return d == rank - 1 || d == -1; });
      behind = order.end() - last - 1;
      moved = made;
      made = layers.only(moved->inputs[0]);
      if (made == nullptr || !layers.is_linear(*made) || last == order.end()) continue;
    }
    if (!layers.is_conv(*made) && !layers.is_linear(*made)) continue;
    const std::int64_t channels = layers.value(made->inputs[1]).tensor.size(0);
    const auto factors = layers.by_channel(node.inputs[1 - side], channels, behind);
    if (!factors) continue;
    Numbers weight = layers.value(made->inputs[1]).tensor.values(), bias = layers.bias_of(*made, channels);
    const std::size_t each = weight.size() / bias.size();
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] *= (*factors)[i / each];
    for (std::size_t o = 0; o < bias.size(); ++o) bias[o] *= (*factors)[o];
    const std::size_t layer = layers.place(*made);
    if (moved == nullptr) {
      layers.become(node, *made, made->inputs[0], weight, bias);
      layers.remove(layer);
      return true;
    }
    Node scaled = *made;
    layers.become(scaled, *made, made->inputs[0], weight, bias);
    layers.node(layer) = scaled;
    const std::size_t permutes = layers.place(*moved);
    node.op = moved->op;
    node.attributes = moved->attributes;
    node.inputs = moved->inputs;
    layers.remove(permutes);
    return true;
  }
  return false;
}

// layer(x) + constant.
bool fold_shift(Layers& layers, Node& node, double sign) {
  for (const std::size_t side : {0U, 1U}) {
    const Node* const made = layers.only(node.inputs[side]);
    if (made == nullptr || layers.value(node.inputs[side]).shape != layers.value(node.results[0]).shape) continue;
    if ((side == 1 && sign < 0) || (!layers.is_conv(*made) && !layers.is_norm(*made)))
      continue;  // not constant - layer(x)
    const std::int64_t channels = layers.value(made->inputs[layers.is_norm(*made) ? 3 : 1]).tensor.size(0);
    const auto more = layers.by_channel(node.inputs[1 - side], channels, 2);
    if (!more) continue;
    Numbers bias = layers.bias_of(*made, channels);
    for (std::size_t o = 0; o < bias.size(); ++o) bias[o] += sign * (*more)[o];
    const std::size_t layer = layers.place(*made);
    layers.become(node, *made, made->inputs[0], {}, bias);
    layers.remove(layer);
    return true;
  }
  return false;
}

}  // namespace tern::graph
