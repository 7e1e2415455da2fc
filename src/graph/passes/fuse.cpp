#include <algorithm>
#include <unordered_map>

#include "graph/passes/changes.hpp"
#include "graph/passes/concatenation.hpp"
#include "graph/passes/residual.hpp"
#include "operators/fusion.hpp"
#include "tern/graph/passes.hpp"

namespace tern::graph {

namespace {

/// Whether the result is rounded to 16 bits between the two, and the joint kernel would leave that out: before an
/// activation that is no mere bound, and on some devices before a sum.
bool rounds_between(const Structure& structure, const Node& first, const Node& next) {
  const std::string& name = next.op->name();
  return size_of(structure.values[first.results[0]].dtype) == 2 && name != "relu" && name != "relu6" &&
         name != "max_pool2d";
}

/// Joins `first` and `next`, which reads the only result of `first` as input number `position`; false where they stay.
bool join(Structure& structure, Node& first, Node& next, std::size_t position, Rounding rounding) {
  if (!first.by_batch.empty() || !next.by_batch.empty()) return false;
  const operators::OpForm form{next.op, next.attributes};
  const auto joined = operators::fused({first.op, first.attributes}, form, position);
  if (!joined) return false;
  if (rounding == Rounding::same && (!joined->exact || rounds_between(structure, first, next))) return false;
  std::vector<int> others = next.inputs;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(position));
  if (first.inputs.size() + others.size() > joined->inputs + others.size()) return false;  // has them already
  for (const int id : others)
    if (id < 0 || structure.values[id].shape != structure.values[first.results[0]].shape ||
        structure.values[id].dtype != structure.values[first.results[0]].dtype)
      return false;
  std::vector<int> inputs = first.inputs;
  if (!others.empty()) inputs.resize(joined->inputs, -1);
  inputs.insert(inputs.end(), others.begin(), others.end());
  next.op = joined->form.op;
  next.attributes = joined->form.attributes;
  next.inputs = std::move(inputs);
  if (next.module.empty()) next.module = first.module;
  return true;
}

}  // namespace

void fuse(Structure& structure, Rounding rounding) {
  const std::vector<int> uses = structure.uses();
  Changes changes(structure);
  std::unordered_map<int, std::size_t> maker;  // of a value, among the nodes
  std::vector<bool> gone(structure.nodes.size());
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    Node& next = structure.nodes[i];
    for (std::size_t position = 0; position < next.inputs.size(); ++position) {
      const int id = next.inputs[position];
      const auto made = maker.find(id);
      if (id < 0 || made == maker.end() || uses[id] != 1) continue;
      Node& first = structure.nodes[made->second];
      if (first.results.size() != 1 || next.results.size() != 1) continue;
      if (!changes.may_move(structure, made->second, i)) continue;
      if (!join(structure, first, next, position, rounding)) continue;
      changes.move(made->second, i);
      gone[made->second] = true;
      break;
    }
    for (const int id : next.results) maker[id] = i;
  }
  std::size_t i = 0;
  std::erase_if(structure.nodes, [&](const Node&) { return gone[i++]; });
  join_concatenated(structure);
  remove_dead(structure);
}

Graph optimized(const Graph& graph) {
  Structure structure = graph.structure();
  fold_constants(structure);
  merge_common(structure);
  move_reshapes(structure);
  fuse(structure);
  remove_dead(structure);
  return Graph(std::move(structure));
}

Graph for_inference(const Graph& graph) {
  Structure structure = graph.structure();
  merge_common(structure);
  move_reshapes(structure);
  merge_layers(structure);
  // Sums and activations first: they then go into the layers with the normalisations.
  fuse(structure, Rounding::fewer);
  fold_batch_norm(structure);
  fold_constants(structure);
  join_linear(structure);
  trim_taps(structure);
  fuse(structure, Rounding::fewer);
  join_residuals(structure);
  remove_dead(structure);
  return Graph(std::move(structure));
}

}  // namespace tern::graph
