#include <map>
#include <numeric>
#include <tuple>

#include "tern/graph/passes.hpp"

namespace tern::graph {

void merge_common(Structure& structure) {
  std::vector<int> stands_for(structure.values.size());
  std::iota(stands_for.begin(), stands_for.end(), 0);
  std::map<std::tuple<const operators::Op*, std::string, std::vector<int>>, std::vector<int>> seen;
  std::vector<Node> kept;
  for (Node& node : structure.nodes) {
    for (int& id : node.inputs)
      if (id >= 0) id = stands_for[id];
    if (node.op->effect(node.attributes) == operators::Effect::changes) {
      kept.push_back(std::move(node));
      continue;
    }
    const std::string text = node.by_batch.empty() ? node.op->write(node.attributes) : node.by_batch;
    const auto [entry, first] = seen.try_emplace({node.op, text, node.inputs}, node.results);
    if (first) {
      kept.push_back(std::move(node));
      continue;
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) stands_for[node.results[i]] = entry->second[i];
  }
  for (int& id : structure.results) id = stands_for[id];
  structure.nodes = std::move(kept);
  remove_dead(structure);  // the values that nobody makes now
}

}  // namespace tern::graph
