#include "graph/passes/renumber.hpp"
#include "tern/graph/passes.hpp"

namespace tern::graph {

void renumber(Structure& structure, const std::vector<bool>& keeps) {
  std::vector<int> to(structure.values.size(), -1);
  std::vector<Value> values;
  for (std::size_t id = 0; id < keeps.size(); ++id) {
    if (!keeps[id]) continue;
    to[id] = static_cast<int>(values.size());
    values.push_back(std::move(structure.values[id]));
  }
  structure.values = std::move(values);
  const auto change = [&](std::vector<int>& ids) {
    for (int& id : ids)
      if (id >= 0) id = to[id];
  };
  for (Node& node : structure.nodes) {
    change(node.inputs);
    change(node.results);
  }
  change(structure.inputs);
  change(structure.results);
}

void remove_dead(Structure& structure) {
  std::vector<bool> needed(structure.values.size());
  for (const int id : structure.inputs) needed[id] = true;
  for (const int id : structure.results) needed[id] = true;
  std::vector<Node> kept;
  for (auto node = structure.nodes.rbegin(); node != structure.nodes.rend(); ++node) {
    bool needs = node->op->effect(node->attributes) == operators::Effect::changes;
    for (const int id : node->results) needs = needs || needed[id];
    if (!needs) continue;
    for (const int id : node->inputs)
      if (id >= 0) needed[id] = true;
    for (const int id : node->results) needed[id] = true;
    kept.push_back(std::move(*node));
  }
  structure.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  renumber(structure, needed);
}

}  // namespace tern::graph
