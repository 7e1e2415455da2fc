// What only gives elements another shape goes behind operators of single elements, so that these meet the operator
// before it; what then cancels out is removed. Networks over sequences reshape around every layer.

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "tern/graph/passes.hpp"

namespace tern::graph {

namespace {

constexpr std::array<std::string_view, 4> reshapes{"reshape", "squeeze", "unsqueeze", "flatten"};
constexpr std::array<std::string_view, 12> elementwise{"relu",      "sigmoid",    "tanh", "relu6", "gelu", "silu",
                                                       "hardswish", "leaky_relu", "abs",  "neg",   "sqrt", "clamp"};

template <class Names>
bool is_one_of(const Node& node, const Names& names) {
  return std::ranges::find(names, node.op->name()) != names.end();
}

}  // namespace

void move_reshapes(Structure& structure) {
  std::vector<int> uses = structure.uses();
  std::vector<int> stands_for(structure.values.size());
  std::iota(stands_for.begin(), stands_for.end(), 0);
  std::unordered_map<int, std::size_t> maker;  // the reshapes, by what they make
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    Node& node = structure.nodes[i];
    for (int& id : node.inputs)
      if (id >= 0) id = stands_for[id];
    const bool simple = node.inputs.size() == 1 && node.results.size() == 1;
    const auto before = simple ? maker.find(node.inputs[0]) : maker.end();
    if (simple && is_one_of(node, elementwise) && before != maker.end() && uses[node.inputs[0]] == 1) {
      // The nodes exchange what they do, and the value between them its shape.
      Node& shaped = structure.nodes[before->second];
      std::swap(shaped.op, node.op);
      std::swap(shaped.attributes, node.attributes);
      std::swap(shaped.by_batch, node.by_batch);
      std::swap(shaped.module, node.module);
      Value& between = structure.values[shaped.results[0]];
      between.shape = structure.values[shaped.inputs[0]].shape;
      maker.erase(before);
    }
    if (!simple || !is_one_of(node, reshapes)) continue;
    if (const auto first = maker.find(node.inputs[0]); first != maker.end() && node.op->name() == "reshape") {
      const int source = structure.nodes[first->second].inputs[0];  // whatever shape it has
      // An image that is channels last comes back in order, and on devices its sums would add in another one.
      const std::vector<Linear>& back = structure.values[node.results[0]].shape;
      const bool image = back.size() == 4 && back[2] != Linear{1};
      if (!image || structure.values[source].shape != back) {
        --uses[node.inputs[0]];
        node.inputs[0] = source;
        ++uses[source];
      }
    }
    const Value &from = structure.values[node.inputs[0]], &to = structure.values[node.results[0]];
    if (from.shape == to.shape && std::ranges::find(structure.results, node.results[0]) == structure.results.end()) {
      stands_for[node.results[0]] = node.inputs[0];
      uses[node.inputs[0]] += uses[node.results[0]];
    } else {
      maker[node.results[0]] = i;
    }
  }
  remove_dead(structure);
}

}  // namespace tern::graph
