#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "graph/passes/changes.hpp"
#include "tern/graph/passes.hpp"

namespace tern::graph {

void merge_common(Structure& structure) {
  const Changes changes(structure);
  std::vector<int> stands_for(structure.values.size());
  std::iota(stands_for.begin(), stands_for.end(), 0);
  std::map<std::tuple<const operators::Op*, std::string, std::vector<int>>, std::vector<int>> seen;
  std::vector<Node> kept;
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    Node& node = structure.nodes[i];
    for (int& id : node.inputs)
      if (id >= 0) id = stands_for[id];
    if (node.op->effect(node.attributes) == operators::Effect::changes) {
      std::erase_if(seen, [&](const auto& entry) {  // what was read before is another number now
        return std::ranges::any_of(std::get<2>(entry.first), [&](int id) { return changes.changes(i, id); });
      });
      kept.push_back(std::move(node));
      continue;
    }
    const std::string text = node.by_batch.empty() ? node.op->write(node.attributes) : node.by_batch;
    const auto [entry, first] = seen.try_emplace({node.op, text, node.inputs}, node.results);
    if (first) {
      kept.push_back(std::move(node));
      continue;
    }
    for (std::size_t k = 0; k < node.results.size(); ++k) stands_for[node.results[k]] = entry->second[k];
  }
  for (int& id : structure.results) id = stands_for[id];
  structure.nodes = std::move(kept);
  remove_dead(structure);  // the values that nobody makes now
}

}  // namespace tern::graph
