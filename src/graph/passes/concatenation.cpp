// cat of convolutions along the channels is conv2d_cat: each writes its part of the result.

#include "graph/passes/concatenation.hpp"

#include <algorithm>
#include <unordered_map>

#include "graph/passes/changes.hpp"
#include "tern/graph/passes.hpp"
#include "tern/operators/conv.hpp"

namespace tern::graph {

namespace {

/// The convolutions that make the inputs of `node`, if it joins channels and nobody else reads them; else none.
std::vector<std::size_t> convolutions_of(const Structure& structure, const Node& node, const std::vector<int>& uses,
                                         const std::unordered_map<int, std::size_t>& maker) {
  const std::size_t rank = node.results.empty() ? 0 : structure.values[node.results[0]].shape.size();
  if (node.op->name() != "cat" || !node.by_batch.empty() || rank != 4) return {};
  if (const auto dim = node.attributes.get<std::int64_t>(); dim != 1 && dim != -3) return {};
  std::vector<std::size_t> made;
  for (const int id : node.inputs) {
    const auto found = maker.find(id);
    if (id < 0 || found == maker.end() || uses[id] != 1) return {};
    const Node& conv = structure.nodes[found->second];
    if (conv.op->name() != "conv2d" || !conv.by_batch.empty()) return {};
    made.push_back(found->second);
  }
  return made.size() < 2 ? std::vector<std::size_t>{} : made;
}

}  // namespace

void join_concatenated(Structure& structure) {
  const std::vector<int> uses = structure.uses();
  const Changes changes(structure);
  std::unordered_map<int, std::size_t> maker;
  std::vector<bool> gone(structure.nodes.size());
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    Node& node = structure.nodes[i];
    const std::vector<std::size_t> made = convolutions_of(structure, node, uses, maker);
    for (const int id : node.results) maker[id] = i;
    if (made.empty()) continue;
    if (!std::ranges::all_of(made, [&](std::size_t conv) { return changes.may_move(structure, conv, i); })) continue;
    std::vector<operators::Conv2dOptions> options;
    node.inputs.clear();
    for (const std::size_t place : made) {
      std::vector<int> own = structure.nodes[place].inputs;
      own.resize(3, -1);
      node.inputs.insert(node.inputs.end(), own.begin(), own.end());
      options.push_back(structure.nodes[place].attributes.get<operators::Conv2dOptions>());
      gone[place] = true;
    }
    node.op = &operators::op("conv2d_cat");
    node.attributes = operators::Attributes({std::any(std::move(options))});
  }
  std::size_t i = 0;
  std::erase_if(structure.nodes, [&](const Node&) { return gone[i++]; });
}

}  // namespace tern::graph
