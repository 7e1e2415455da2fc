#include "onnx/patterns.hpp"

#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <unordered_map>

namespace tern::onnx {

namespace {

class Patterns {
 public:
  explicit Patterns(graph::Structure& structure) : structure_(structure) {
    for (std::size_t i = 0; i < structure.nodes.size(); ++i)
      for (const int id : structure.nodes[i].results) maker_[id] = i;
  }

  void run() {
    for (graph::Node& node : structure_.nodes) {
      if (const std::optional<int> x = gelu_of(node)) become(node, "gelu", *x);
      if (const std::optional<int> x = silu_of(node)) become(node, "silu", *x);
    }
  }

 private:
  static void become(graph::Node& node, const char* op, int x) {
    node.op = &operators::op(op);
    node.attributes = {};
    node.inputs = {x};
  }
  /// The node that makes a value, if it is of this operator, else null.
  const graph::Node* made_by(int id, std::string_view op) const {
    const auto found = maker_.find(id);
    if (found == maker_.end()) return nullptr;
    const graph::Node& node = structure_.nodes[found->second];
    return node.op->name() == op ? &node : nullptr;
  }
  /// Whether a value is one constant number, to float32's rounding.
  bool is_number(int id, double number) const {
    if (id < 0) return false;
    const graph::Value& value = structure_.values[id];
    return value.kind == graph::Kind::constant && value.tensor.numel() == 1 && is_floating(value.dtype) &&
           std::abs(value.tensor.values()[0] - number) <= 1e-6 * number;
  }
  /// The other factor or summand where one is this number.
  std::optional<int> beside(const graph::Node* node, double number) const {
    if (node == nullptr || node->inputs.size() != 2) return {};
    for (const std::size_t i : {0U, 1U})
      if (is_number(node->inputs[i], number)) return node->inputs[1 - i];
    return {};
  }
  /// x of 1 + erf(x / sqrt(2)).
  std::optional<int> cumulative_of(int id) const {
    const std::optional<int> sum = beside(made_by(id, "add"), 1);
    const graph::Node* erf = sum ? made_by(*sum, "erf") : nullptr;
    if (erf == nullptr) return {};
    const graph::Node* quotient = made_by(erf->inputs[0], "div");
    if (quotient != nullptr && is_number(quotient->inputs[1], std::numbers::sqrt2)) return quotient->inputs[0];
    return beside(made_by(erf->inputs[0], "mul"), 1 / std::numbers::sqrt2);
  }
  /// x where the node is a product of x, one half and 1 + erf(x / sqrt(2)), in any order.
  std::optional<int> gelu_of(const graph::Node& node) const {
    if (node.op->name() != "mul" || node.inputs.size() != 2) return {};
    std::array<int, 3> factors{};
    for (const std::size_t i : {0U, 1U}) {
      const graph::Node* inner = made_by(node.inputs[i], "mul");
      if (inner == nullptr || inner->inputs.size() != 2) continue;
      factors = {inner->inputs[0], inner->inputs[1], node.inputs[1 - i]};
      for (const std::size_t half : {0U, 1U, 2U}) {
        if (!is_number(factors[half], 0.5)) continue;
        const int a = factors[(half + 1) % 3], b = factors[(half + 2) % 3];
        if (const std::optional<int> x = cumulative_of(a); x && *x == b) return x;
        if (const std::optional<int> x = cumulative_of(b); x && *x == a) return x;
      }
    }
    return {};
  }
  /// x where the node is x * sigmoid(x).
  std::optional<int> silu_of(const graph::Node& node) const {
    if (node.op->name() != "mul" || node.inputs.size() != 2) return {};
    for (const std::size_t i : {0U, 1U})
      if (const graph::Node* gate = made_by(node.inputs[i], "sigmoid"); gate && gate->inputs[0] == node.inputs[1 - i])
        return node.inputs[1 - i];
    return {};
  }

  graph::Structure& structure_;
  std::unordered_map<int, std::size_t> maker_;
};

}  // namespace

void join_patterns(graph::Structure& structure) { Patterns(structure).run(); }

}  // namespace tern::onnx
