// quantized_cat of convolutions is quantized_conv2d_cat: each writes its channels of the result.

#include <algorithm>
#include <unordered_map>

#include "graph/quantize/rewrite.hpp"
#include "tern/graph/passes.hpp"

namespace tern::graph::quantizing {

namespace {

bool same(const Quantization& a, const Quantization& b) { return a.scale == b.scale && a.zero == b.zero; }

/// The convolutions that make the inputs of `node`, in its quantization, if nobody else reads them; else none.
std::vector<std::size_t> convolutions_of(const Structure& structure, const Node& node, const std::vector<int>& uses,
                                         const std::unordered_map<int, std::size_t>& maker) {
  if (node.op->name() != "quantized_cat") return {};
  const auto& from = node.attributes.get<std::vector<Quantization>>();
  const auto& result = node.attributes.get<Quantization>();
  if (!std::ranges::all_of(from, [&](const Quantization& each) { return same(each, result); })) return {};
  std::vector<std::size_t> made;
  for (const int id : node.inputs) {
    const auto found = maker.find(id);
    if (found == maker.end() || uses[id] != 1) return {};
    const Node& conv = structure.nodes[found->second];
    if (conv.op->name() != "quantized_conv2d" || conv.inputs.size() != 4) return {};
    made.push_back(found->second);
  }
  return made;
}

}  // namespace

void join_concatenated(Structure& structure) {
  const std::vector<int> uses = structure.uses();
  std::unordered_map<int, std::size_t> maker;
  std::vector<bool> gone(structure.nodes.size());
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    Node& node = structure.nodes[i];
    for (const int id : node.results) maker[id] = i;
    const std::vector<std::size_t> made = convolutions_of(structure, node, uses, maker);
    if (made.empty()) continue;
    std::vector<operators::QuantizedConv2dOptions> options;
    node.inputs.clear();
    for (const std::size_t place : made) {
      const Node& conv = structure.nodes[place];
      node.inputs.insert(node.inputs.end(), conv.inputs.begin(), conv.inputs.end());
      options.push_back(conv.attributes.get<operators::QuantizedConv2dOptions>());
      gone[place] = true;
    }
    node.op = &operators::op("quantized_conv2d_cat");
    node.attributes = operators::Attributes({std::any(std::move(options))});
  }
  std::size_t i = 0;
  std::erase_if(structure.nodes, [&](const Node&) { return gone[i++]; });
  remove_dead(structure);
}

}  // namespace tern::graph::quantizing
