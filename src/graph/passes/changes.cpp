#include "graph/passes/changes.hpp"

#include <algorithm>

namespace tern::graph {

Changes::Changes(const Structure& structure) {
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    const Node& node = structure.nodes[i];
    // What else has this effect draws random numbers.
    if (node.op->name() != "batch_norm" || node.op->effect(node.attributes) != operators::Effect::changes) continue;
    std::vector<bool> changed(structure.values.size());
    for (std::size_t k = 3; k < std::min<std::size_t>(node.inputs.size(), 5); ++k)
      if (node.inputs[k] >= 0) changed[node.inputs[k]] = true;
    for (const Node& reader : structure.nodes)
      if (std::ranges::any_of(reader.inputs, [&](int id) { return id >= 0 && changed[id]; }))
        for (const int id : reader.results) changed[id] = &reader != &node;
    of_node_.emplace(i, std::move(changed));
  }
}

bool Changes::changes(std::size_t i, int value) const {
  const auto found = of_node_.find(i);
  return value >= 0 && found != of_node_.end() && found->second[value];
}

bool Changes::changes(int value) const {
  return std::ranges::any_of(of_node_, [&](const auto& entry) { return value >= 0 && entry.second[value]; });
}

bool Changes::may_move(const Structure& structure, std::size_t first, std::size_t next) const {
  const auto changed_by = [&](std::size_t changer, std::size_t reader) {
    return std::ranges::any_of(structure.nodes[reader].inputs, [&](int id) { return changes(changer, id); });
  };
  if (of_node_.empty()) return true;
  for (std::size_t between = first + 1; between < next; ++between)
    if (changed_by(between, first) || changed_by(first, between)) return false;
  return true;
}

void Changes::move(std::size_t first, std::size_t next) {
  if (auto changed = of_node_.extract(first)) {
    changed.key() = next;
    of_node_.insert(std::move(changed));
  }
}

}  // namespace tern::graph
