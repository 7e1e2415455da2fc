#include "graph/passes/residual.hpp"

#include <unordered_map>

#include "tern/operators/conv.hpp"

namespace tern::graph {

namespace {

using operators::Conv2dOptions;

bool is(Pair pair, std::int64_t size) { return pair.h == size && pair.w == size; }

/// What a kernel for sizes that are known needs: the weight's shape; null where it depends on the batch.
const std::vector<Linear>* weight_of(const Structure& structure, const Node& node) {
  if (!node.by_batch.empty() || node.results.size() != 1 || node.inputs.size() < 2) return nullptr;
  if (node.op->name() != "conv2d" && node.op->name() != "conv2d_add") return nullptr;
  const auto& shape = structure.values[node.inputs[1]].shape;
  for (const Linear& size : shape)
    if (size.each != 0) return nullptr;
  return shape.size() == 4 ? &shape : nullptr;
}

bool of_points(const Structure& structure, const Node& node) {
  const auto* const weight = weight_of(structure, node);
  if (weight == nullptr || (*weight)[2].fixed != 1 || (*weight)[3].fixed != 1) return false;
  const auto& options = node.attributes.get<Conv2dOptions>();
  return is(options.stride, 1) && is(options.padding, 0) && !options.end_padding && options.groups == 1;
}

bool depthwise(const Structure& structure, const Node& node) {
  const auto* const weight = weight_of(structure, node);
  if (weight == nullptr || node.op->name() != "conv2d") return false;
  const auto& options = node.attributes.get<Conv2dOptions>();
  return options.groups > 1 && options.groups == (*weight)[0].fixed && (*weight)[1].fixed == 1 &&
         is(options.dilation, 1) && !options.end_padding && !options.same_padding;
}

int input(const Node& node, std::size_t i) { return i < node.inputs.size() ? node.inputs[i] : -1; }

}  // namespace

void join_residuals(Structure& structure) {
  const std::vector<int> uses = structure.uses();
  std::unordered_map<int, std::size_t> maker;  // of a value, among the nodes
  std::vector<bool> gone(structure.nodes.size());
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  const auto before = [&](const Node& node) {  // the node that only this one reads
    const auto made = maker.find(node.inputs[0]);
    return made == maker.end() || uses[node.inputs[0]] != 1 ? none : made->second;
  };
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    Node& last = structure.nodes[i];
    for (const int id : last.results) maker[id] = i;
    if (!of_points(structure, last)) continue;
    const std::size_t middle = before(last);
    if (middle == none || !depthwise(structure, structure.nodes[middle])) continue;
    const Node& own = structure.nodes[middle];
    const auto& options = own.attributes.get<Conv2dOptions>();
    operators::InvertedResidualOptions joined{.stride = options.stride,
                                              .padding = options.padding,
                                              .depthwise = options.activation,
                                              .project = last.attributes.get<Conv2dOptions>().activation};
    std::vector<int> inputs{own.inputs[0], -1, -1};
    const std::size_t first = before(own);
    if (first != none && structure.nodes[first].op->name() == "conv2d" &&
        of_points(structure, structure.nodes[first])) {
      const Node& wide = structure.nodes[first];
      joined.expand = wide.attributes.get<Conv2dOptions>().activation;
      inputs = {wide.inputs[0], wide.inputs[1], input(wide, 2)};
      gone[first] = true;
    }
    gone[middle] = true;
    const int added = last.op->name() == "conv2d_add" ? last.inputs[3] : -1;
    inputs.insert(inputs.end(), {own.inputs[1], input(own, 2), last.inputs[1], input(last, 2), added});
    while (inputs.back() == -1) inputs.pop_back();
    last.op = &operators::op("inverted_residual");
    last.attributes = operators::Attributes({std::any(joined)});
    last.inputs = std::move(inputs);
  }
  std::size_t i = 0;
  std::erase_if(structure.nodes, [&](const Node&) { return gone[i++]; });
}

}  // namespace tern::graph
