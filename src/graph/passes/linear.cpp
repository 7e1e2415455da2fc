// A product with a constant matrix is a linear layer of its transpose, a constant row added to it its bias: kernels
// keep the weights of layers packed, and compute an activation with them.

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "graph/passes/constants.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/graph/passes.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/shape.hpp"

namespace tern::graph {

namespace {

class Linears {
 public:
  explicit Linears(Structure& structure) : structure_(structure), uses_(structure.uses()) {}

  void run() {
    std::vector<bool> gone(structure_.nodes.size());
    for (std::size_t i = 0; i < structure_.nodes.size(); ++i) {
      Node& node = structure_.nodes[i];
      if (node.op->name() == "matmul") join_product(node);
      if (node.op->name() == "add")
        if (const auto layer = join_bias(node)) gone[*layer] = true;
      for (const int id : node.results) maker_[id] = i;
    }
    std::size_t i = 0;
    std::erase_if(structure_.nodes, [&](const Node&) { return gone[i++]; });
    remove_dead(structure_);
  }

 private:
  const Tensor* constant(int id) const {
    if (id < 0 || structure_.values[id].kind != Kind::constant) return nullptr;
    const Tensor& tensor = structure_.values[id].tensor;
    return is_floating(tensor.dtype()) ? &tensor : nullptr;
  }

  void join_product(Node& node) {
    const Tensor* const factor = constant(node.inputs[1]);
    const std::size_t rank = structure_.values[node.inputs[0]].shape.size();
    if (factor == nullptr || factor->rank() != 2 || rank < 2 || !node.by_batch.empty()) return;
    const auto& options = node.attributes.get<operators::MatmulOptions>();
    if (options.transpose_a) return;
    const int weight = options.transpose_b ? node.inputs[1] : transposed(node);
    node.op = &operators::op("linear");
    node.attributes = operators::Attributes({Activation::none});
    node.inputs[1] = weight;
  }

  /// The constant behind a node's second input, as [out, in].
  int transposed(const Node& node) {
    const auto [entry, first] = transposed_.try_emplace(node.inputs[1], -1);
    if (first) {
      const Tensor whole = operators::transpose(structure_.values[node.inputs[1]].tensor, 0, 1).contiguous();
      entry->second = add_constant(structure_, node, "weight", whole);
    }
    return entry->second;
  }

  /// Makes the sum of a layer and a row the layer; which one it was.
  std::optional<std::size_t> join_bias(Node& node) {
    if (!node.by_batch.empty() || node.inputs.size() != 2) return {};
    for (const std::size_t side : {0U, 1U}) {
      const Tensor* const row = constant(node.inputs[1 - side]);
      const auto made = maker_.find(node.inputs[side]);
      if (row == nullptr || made == maker_.end() || uses_[node.inputs[side]] != 1) continue;
      const Node& layer = structure_.nodes[made->second];
      if (layer.op->name() != "linear" || layer.inputs.size() > 2 ||
          layer.attributes.get<Activation>() != Activation::none)
        continue;
      const Value& before = structure_.values[node.inputs[side]];
      const Value& after = structure_.values[node.results[0]];
      const std::int64_t width = before.shape.back().fixed;
      if (before.shape.back().each != 0 || row->rank() < 1 || row->size(-1) != width || row->numel() != width ||
          before.shape != after.shape || before.dtype != row->dtype())
        continue;
      const int bias = row->rank() == 1 ? node.inputs[1 - side]
                                        : add_constant(structure_, layer, "bias", row->reshape({width}).contiguous());
      node.op = layer.op;
      node.attributes = layer.attributes;
      node.inputs = {layer.inputs[0], layer.inputs[1], bias};
      if (node.module.empty()) node.module = layer.module;
      return made->second;
    }
    return {};
  }

  Structure& structure_;
  std::vector<int> uses_;
  std::unordered_map<int, std::size_t> maker_;
  std::unordered_map<int, int> transposed_;
};

}  // namespace

void join_linear(Structure& structure) {
  const NoGrad no_grad;
  Linears(structure).run();
}

}  // namespace tern::graph
