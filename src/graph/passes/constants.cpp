#include "graph/passes/constants.hpp"

#include <algorithm>

#include "graph/passes/changes.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/graph/passes.hpp"

namespace tern::graph {

int add_constant(Structure& structure, const Node& node, const char* name, const Tensor& tensor) {
  Value value{.name = (node.module.empty() ? "" : node.module + ".") + name,
              .kind = Kind::constant,
              .dtype = tensor.dtype(),
              .shape = {},
              .tensor = tensor};
  for (const std::int64_t size : tensor.shape()) value.shape.push_back({size, 0});
  return structure.add(std::move(value));
}

void fold_constants(Structure& structure) {
  const NoGrad no_grad;
  const Changes changes(structure);
  std::vector<Node> kept;
  for (Node& node : structure.nodes) {
    const bool constant = std::ranges::all_of(node.inputs, [&](int id) {
      return id < 0 || (structure.values[id].kind == Kind::constant && !changes.changes(id));
    });
    if (!constant || node.inputs.empty() || !node.by_batch.empty() ||
        node.op->effect(node.attributes) == operators::Effect::changes) {
      kept.push_back(std::move(node));
      continue;
    }
    std::vector<Tensor> inputs;
    for (const int id : node.inputs) inputs.push_back(id < 0 ? Tensor{} : structure.values[id].tensor);
    const std::vector<Tensor> results = node.op->run(inputs, node.attributes);
    for (std::size_t i = 0; i < results.size(); ++i) {
      Value& value = structure.values[node.results[i]];
      value.kind = Kind::constant;
      value.tensor = results[i].contiguous();
    }
  }
  structure.nodes = std::move(kept);
}

}  // namespace tern::graph
