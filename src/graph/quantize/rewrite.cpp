#include "graph/quantize/rewrite.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "tern/graph/passes.hpp"
#include "tern/operators/pooling.hpp"

namespace tern::graph::quantizing {

namespace {

using operators::Attributes;

class Rewriter {
 public:
  Rewriter(const Structure& structure, const std::vector<Layer>& layers, std::map<int, Quantization> as)
      : old_(structure), made_(structure), as_(std::move(as)) {
    made_.nodes.clear();
    role_.resize(old_.nodes.size());
    for (const Layer& layer : layers) {
      for (const auto& place : {std::optional(layer.node), layer.add, layer.bound})
        if (place) role_[*place] = Role::inside;
      role_[layer.last] = Role::layer;
      by_last_[layer.last] = &layer;
    }
    find_stored();
  }

  Structure run() {
    for (std::size_t i = 0; i < old_.nodes.size(); ++i) {
      if (role_[i] == Role::layer)
        run_layer(*by_last_[i]);
      else if (role_[i] == Role::follower)
        follow(old_.nodes[i]);
      else if (role_[i] == Role::plain)
        keep(old_.nodes[i]);
    }
    for (const int id : made_.results) as_real(id);
    remove_dead(made_);
    return std::move(made_);
  }

 private:
  enum class Role : std::uint8_t { plain, inside, layer, follower };

  /// Which values are stored: what a layer reads, and results of layers and followers that a follower reads.
  void find_stored() {
    std::vector<bool> could(old_.values.size());
    for (const auto& [last, layer] : by_last_)
      for (const int id : {layer->x, layer->other})
        if (id >= 0) could[id] = true;  // it is stored for that layer
    for (std::size_t i = 0; i < old_.nodes.size(); ++i) {
      const Node& node = old_.nodes[i];
      if (role_[i] == Role::layer) could[node.results[0]] = true;
      if (role_[i] != Role::plain || !follows(old_, node)) continue;
      const bool all = std::ranges::all_of(node.inputs, [&](int id) { return id >= 0 && could[id]; });
      if (!all) continue;
      role_[i] = Role::follower;
      could[node.results[0]] = true;
    }
    stored_.assign(old_.values.size(), false);
    for (std::size_t i = 0; i < old_.nodes.size(); ++i) {
      if (role_[i] == Role::follower) {
        for (const int id : old_.nodes[i].inputs) stored_[id] = true;
        stored_[old_.nodes[i].results[0]] = true;
      }
      if (role_[i] != Role::layer) continue;
      const Layer& layer = *by_last_[i];
      stored_[layer.x] = true;
      if (layer.other >= 0) stored_[layer.other] = stored_[layer.result] = true;  // a float32 result has no summand
    }
  }

  const Quantization& as(int id) const { return as_.at(id); }

  int add_stored(int id) {
    Value value = old_.values[id];
    value.name += "_int8";
    value.kind = Kind::result;
    value.dtype = DType::uint8;
    value.tensor = {};
    return stored_as_[id] = made_.add(std::move(value));
  }
  void emit(const char* op, Attributes attributes, std::vector<int> inputs, int result, const Node* of = nullptr) {
    made_.nodes.push_back({&operators::op(op),
                           std::move(attributes),
                           of == nullptr ? "" : of->by_batch,
                           std::move(inputs),
                           {result},
                           of == nullptr ? "" : of->module});
  }

  /// The stored form of a value.
  int as_stored(int id) {
    if (const auto found = stored_as_.find(id); found != stored_as_.end()) return found->second;
    const int result = add_stored(id);
    emit("quantize", Attributes({std::any(as(id))}), {id}, result);
    real_.insert(id);
    return result;
  }
  /// The float32 form of a value.
  int as_real(int id) {
    if (id < 0 || real_.contains(id) || !stored_as_.contains(id)) return id;
    emit("dequantize", Attributes({std::any(as(id))}), {stored_as_[id]}, id);
    real_.insert(id);
    return id;
  }

  void keep(const Node& node) {
    Node own = node;
    for (int& id : own.inputs) id = as_real(id);
    made_.nodes.push_back(std::move(own));
  }

  void run_layer(const Layer& layer) {
    LayerValues values{.x = {as_stored(layer.x), as(layer.x)}, .other = {}, .as = {}, .result = layer.result};
    if (layer.other >= 0) values.other = {as_stored(layer.other), as(layer.other)};
    const bool stores = stored_[layer.result];
    if (stores) {
      values.result = add_stored(layer.result);
      values.as = as(layer.result);
    } else {
      real_.insert(layer.result);
    }
    // The weights are looked up in the old structure, whose values come first in the new one.
    emit_layer(made_, layer, old_.nodes[layer.node], values);
  }

  void follow(const Node& node) {
    const int from = node.inputs[0], to = node.results[0];
    std::vector<int> inputs;
    for (const int id : node.inputs) inputs.push_back(as_stored(id));
    if (keeps_quantization(node)) as_[to] = as(from);
    const std::string& name = node.op->name();
    const int result = add_stored(to);
    const auto average = [&](operators::QuantizedAveragePoolOptions options) {
      options.x = as(from), options.result = as(to);
      return options;
    };
    if (name == "max_pool2d") {
      const auto& own = node.attributes.get<operators::MaxPool2dOptions>();
      const operators::QuantizedPoolOptions options{own.stride, own.padding, own.dilation, own.ceil_mode};
      emit("quantized_max_pool2d", Attributes({std::any(node.attributes.get<Pair>()), std::any(options)}), inputs,
           result, &node);
    } else if (name == "avg_pool2d") {
      const auto& own = node.attributes.get<operators::AvgPool2dOptions>();
      emit("quantized_avg_pool2d",
           Attributes(
               {std::any(node.attributes.get<Pair>()), std::any(average({.stride = own.stride,
                                                                         .padding = own.padding,
                                                                         .count_include_pad = own.count_include_pad,
                                                                         .ceil_mode = own.ceil_mode}))}),
           inputs, result, &node);
    } else if (name == "adaptive_avg_pool2d") {
      emit("quantized_adaptive_avg_pool2d", Attributes({std::any(node.attributes.get<Pair>()), std::any(average({}))}),
           inputs, result, &node);
    } else if (name == "add") {
      const operators::QuantizedAddOptions options{as(node.inputs[0]), as(node.inputs[1]), as(to)};
      emit("quantized_add", Attributes({std::any(options)}), inputs, result, &node);
    } else if (name == "cat") {
      std::vector<Quantization> each;
      for (const int id : node.inputs) each.push_back(as(id));
      emit("quantized_cat", Attributes({std::any(each), std::any(as(to))}), inputs, result, &node);
    } else {
      emit(name.c_str(), node.attributes, inputs, result, &node);
    }
  }

  const Structure& old_;
  Structure made_;
  std::map<int, Quantization> as_;
  std::vector<Role> role_;
  std::unordered_map<std::size_t, const Layer*> by_last_;
  std::vector<bool> stored_;
  std::unordered_map<int, int> stored_as_;
  std::set<int> real_;
};

}  // namespace

Structure rewritten(const Structure& structure, const std::vector<Layer>& layers,
                    const std::map<int, Quantization>& as) {
  return Rewriter(structure, layers, as).run();
}

Structure alone(const Structure& structure, const Layer& layer) {
  Structure own = structure;
  own.nodes.clear();
  for (const auto& place : {std::optional(layer.node), layer.add, layer.bound})
    if (place) own.nodes.push_back(structure.nodes[*place]);
  own.inputs = {layer.x};
  if (layer.other >= 0 && layer.other != layer.x) own.inputs.push_back(layer.other);
  for (const int id : own.inputs) own.values[id].kind = Kind::input;
  own.results = {layer.result};
  remove_dead(own);
  return own;
}

Structure alone_stored(const Structure& structure, const Layer& layer, const std::map<int, Quantization>& as) {
  Structure own = structure;
  own.nodes.clear();
  own.inputs = {layer.x};
  if (layer.other >= 0 && layer.other != layer.x) own.inputs.push_back(layer.other);
  for (const int id : own.inputs) {
    own.values[id].kind = Kind::input;
    own.values[id].dtype = DType::uint8;
  }
  own.values[layer.result].dtype = DType::uint8;
  LayerValues values{{layer.x, as.at(layer.x)}, {}, as.at(layer.result), layer.result};
  if (layer.other >= 0) values.other = {layer.other, as.at(layer.other)};
  emit_layer(own, layer, structure.nodes[layer.node], values);
  own.results = {layer.result};
  remove_dead(own);
  return own;
}

}  // namespace tern::graph::quantizing
