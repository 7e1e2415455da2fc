#include "onnx/int8.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "onnx/importer.hpp"
#include "onnx/writer.hpp"

namespace tern::onnx {

namespace {

constexpr const char* domain = "tern.int8";

/// Whether a node is of this type, with the inputs and outputs that the type has: files are not trusted.
bool is_type(const NodeProto* node, std::string_view type, std::size_t inputs = 2) {
  return node != nullptr && node->domain.empty() && node->type == type && node->inputs.size() >= inputs &&
         !node->outputs.empty();
}
bool has(const NodeProto& node, std::size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); }

/// What moves elements and computes nothing.
bool moves(const std::string& type) {
  return type == "Reshape" || type == "Flatten" || type == "Transpose" || type == "Squeeze" || type == "Unsqueeze";
}
bool is_float(const NodeProto& node, std::string_view name, float usual) {
  const AttributeProto* found = find_attribute(node, name);
  return found == nullptr || found->f == usual;
}

class Joiner {
 public:
  explicit Joiner(GraphProto& graph) : graph_(graph) {
    for (const TensorProto& tensor : graph.initializers) constants_[tensor.name] = &tensor;
    // An initialiser that is an input, too, may be replaced by a caller.
    for (const ValueProto& input : graph.inputs) constants_.erase(input.name);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const std::string& name : graph.nodes[i].outputs) maker_[name] = i;
      for (const std::string& name : graph.nodes[i].inputs)
        if (!name.empty()) readers_[name].push_back(i);
      // Graphs within it may read anything.
      nested_ |=
          std::ranges::any_of(graph.nodes[i].attributes, [](const AttributeProto& each) { return each.g != nullptr; });
    }
    for (const ValueProto& output : graph.outputs) outputs_.insert(output.name);
  }

  void run() {
    if (nested_) return;
    find_stored();
    for (NodeProto& node : graph_.nodes)
      if (is_type(&node, "QuantizeLinear") && stored_.contains(node.outputs[0])) join(node);
    for (NodeProto& node : graph_.nodes) {
      const bool from = is_type(&node, "DequantizeLinear") && stored_.contains(node.inputs[0]);
      const bool to = is_type(&node, "QuantizeLinear") && stored_.contains(node.outputs[0]);
      if (!from && !to) continue;
      node.domain = domain;
      node.type = from ? "Dequantize" : "Quantize";
    }
    if (!stored_.empty()) remove_unread();
  }

 private:
  /// What was joined is not read any more.
  void remove_unread() {
    std::set<std::string> read = outputs_;
    std::vector<NodeProto> kept;
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      NodeProto& node = graph_.nodes[i];
      if (std::ranges::none_of(node.outputs, [&](const std::string& name) { return read.contains(name); })) continue;
      read.insert(node.inputs.begin(), node.inputs.end());
      kept.push_back(std::move(node));
    }
    std::ranges::reverse(kept);
    graph_.nodes = std::move(kept);
  }

  const TensorProto* constant(const std::string& name) const {
    const auto found = constants_.find(name);
    return found == constants_.end() ? nullptr : found->second;
  }
  static bool single(const TensorProto* tensor) {
    return tensor != nullptr && std::ranges::all_of(tensor->dims, [](std::int64_t size) { return size == 1; });
  }
  static bool bytes(const TensorProto* tensor) {
    return tensor->type == static_cast<std::int64_t>(Element::int8) ||
           tensor->type == static_cast<std::int64_t>(Element::uint8);
  }
  NodeProto* made(const std::string& name) {
    const auto found = maker_.find(name);
    return found == maker_.end() ? nullptr : &graph_.nodes[found->second];
  }
  /// The one reader of a value, null where there are others.
  NodeProto* only_reader(const std::string& name) {
    const auto found = readers_.find(name);
    if (found == readers_.end() || found->second.size() != 1 || outputs_.contains(name)) return nullptr;
    return &graph_.nodes[found->second[0]];
  }

  /// One known scale and zero for the whole.
  bool plain(const NodeProto& node) const {
    const bool has_zero = has(node, 2);
    const TensorProto *scale = constant(node.inputs.size() > 1 ? node.inputs[1] : ""),
                      *zero = has_zero ? constant(node.inputs[2]) : nullptr;
    if (!single(scale) || scale->type != static_cast<std::int64_t>(Element::float32)) return false;
    if (has_zero ? !single(zero) || !bytes(zero) : find_attribute(node, "output_dtype") != nullptr) return false;
    return find_attribute(node, "block_size") == nullptr && find_attribute(node, "precision") == nullptr;
  }
  bool same_numbers(const NodeProto& a, const NodeProto& b) const {
    for (const std::size_t i : {1U, 2U}) {
      if (has(a, i) != has(b, i)) return false;
      if (!has(a, i) || a.inputs[i] == b.inputs[i]) continue;
      const TensorProto *x = constant(a.inputs[i]), *y = constant(b.inputs[i]);
      if (x == nullptr || y == nullptr || x->type != y->type || x->raw != y->raw || x->floats != y->floats ||
          x->integers != y->integers)
        return false;
    }
    return true;
  }

  /// Values that only DequantizeLinear reads, with the same scale and zero.
  void find_stored() {
    for (const NodeProto& node : graph_.nodes) {
      if (!is_type(&node, "QuantizeLinear") || node.outputs.size() != 1 || !plain(node)) continue;
      if (outputs_.contains(node.outputs[0])) continue;
      const auto readers = readers_.find(node.outputs[0]);
      if (readers == readers_.end()) continue;
      const bool all = std::ranges::all_of(readers->second, [&](std::size_t place) {
        const NodeProto& reader = graph_.nodes[place];
        return is_type(&reader, "DequantizeLinear") && reader.inputs[0] == node.outputs[0] && plain(reader) &&
               same_numbers(node, reader);
      });
      if (all) stored_.insert(node.outputs[0]);
    }
  }

  /// The DequantizeLinear of a stored value that makes this one.
  NodeProto* stored_of(const std::string& name) {
    NodeProto* node = made(name);
    return is_type(node, "DequantizeLinear") && stored_.contains(node->inputs[0]) ? node : nullptr;
  }
  /// That of constant weights or of a constant bias.
  NodeProto* constant_of(const std::string& name) {
    NodeProto* node = made(name);
    if (!is_type(node, "DequantizeLinear") || constant(node->inputs[0]) == nullptr ||
        constant(node->inputs[1]) == nullptr || find_attribute(*node, "block_size") != nullptr)
      return nullptr;
    return has(*node, 2) && constant(node->inputs[2]) == nullptr ? nullptr : node;
  }

  /// Whether weights are int8 around 0, or uint8 around 128.
  bool centred(const NodeProto& weight) const {
    const TensorProto *numbers = constant(weight.inputs[0]),
                      *zero = has(weight, 2) ? constant(weight.inputs[2]) : nullptr;
    const bool whole = numbers->type == static_cast<std::int64_t>(Element::int8);
    if (!bytes(numbers)) return false;
    if (zero == nullptr) return whole;
    const char middle = whole ? '\0' : '\x80';
    return zero->type == numbers->type && !zero->external &&
           (zero->has_raw ? std::ranges::all_of(zero->raw, [&](char each) { return each == middle; })
                          : std::ranges::all_of(zero->integers, [&](auto each) { return each == (whole ? 0 : 128); }));
  }

  static void append(NodeProto& to, const NodeProto& from) {
    for (std::size_t i = 0; i < 3; ++i) to.inputs.push_back(has(from, i) ? from.inputs[i] : "");
  }

  /// Puts what makes the numbers of a QuantizeLinear in its place.
  void join(NodeProto& quantize) {
    NodeProto* node = made(quantize.inputs[0]);
    if (node == nullptr || only_reader(quantize.inputs[0]) != &quantize) return;
    NodeProto joined;
    joined.name = node->name;
    joined.domain = domain;
    joined.outputs = quantize.outputs;
    const NodeProto* bound = is_type(node, "Relu", 1) ? node : nullptr;
    if (bound != nullptr) {
      node = made(bound->inputs[0]);
      if (node == nullptr || only_reader(bound->inputs[0]) != bound) return;
    }
    if (!node->domain.empty() || node->inputs.empty() || node->outputs.size() != 1) return;
    joined.attributes = node->attributes;
    const bool conv = is_type(node, "Conv");
    if (conv || is_type(node, "MatMul") || plain_gemm(*node)) {
      const NodeProto *x = stored_of(node->inputs[0]), *weight = constant_of(node->inputs[1]);
      if (x == nullptr || weight == nullptr || (has(*node, 2) && !is_bias(node->inputs[2]))) return;
      const std::size_t rank = constant(weight->inputs[0])->dims.size();
      if ((conv ? rank != 3 && rank != 4 : rank != 2) || !centred(*weight)) return;
      const AttributeProto *turned = find_attribute(*node, "transB"), *axis = find_attribute(*weight, "axis");
      const std::int64_t outputs = conv || (turned != nullptr && turned->i != 0) ? 0 : 1;
      if (!single(constant(weight->inputs[1])) && (axis == nullptr ? 1 : axis->i) != outputs) return;
      joined.type = conv ? "Conv" : "Linear";
      append(joined, *x);
      append(joined, *weight);
      append_result(joined, quantize);
      if (has(*node, 2)) {
        const NodeProto* bias = constant_of(node->inputs[2]);
        joined.inputs.push_back(bias != nullptr ? bias->inputs[0] : node->inputs[2]);
      }
      if (bound != nullptr) joined.attributes.push_back(make_attribute("relu", std::int64_t{1}));
      if (!conv) keep_only(joined, {"transB", "relu"});
      quantize = std::move(joined);
      return;
    }
    if (bound != nullptr) return;
    if (node->type == "Add" || node->type == "Concat") {
      for (const std::string& name : node->inputs) {
        const NodeProto* each = stored_of(name);
        if (each == nullptr) return;
        append(joined, *each);
      }
      joined.type = node->type;
      append_result(joined, quantize);
      quantize = std::move(joined);
      return;
    }
    const NodeProto* x = stored_of(node->inputs[0]);
    if (x == nullptr) return;
    if (node->type == "GlobalAveragePool" || (node->type == "MaxPool" && same_numbers(*x, quantize))) {
      joined.type = node->type;
      append(joined, *x);
      append_result(joined, quantize);
      quantize = std::move(joined);
    } else if (moves(node->type) && same_numbers(*x, quantize)) {
      // The stored numbers move.
      joined.domain.clear();
      joined.type = node->type;
      joined.inputs = node->inputs;
      joined.inputs[0] = x->inputs[0];
      quantize = std::move(joined);
    }
  }
  static void append_result(NodeProto& joined, const NodeProto& quantize) {
    joined.inputs.push_back(quantize.inputs[1]);
    joined.inputs.push_back(has(quantize, 2) ? quantize.inputs[2] : "");
  }
  static void keep_only(NodeProto& node, const std::set<std::string>& names) {
    std::erase_if(node.attributes, [&](const AttributeProto& each) { return !names.contains(each.name); });
  }
  static bool plain_gemm(const NodeProto& node) {
    const AttributeProto* turned = find_attribute(node, "transA");
    return is_type(&node, "Gemm") && is_float(node, "alpha", 1) && is_float(node, "beta", 1) &&
           (turned == nullptr || turned->i == 0);
  }
  bool is_bias(const std::string& name) { return constant(name) != nullptr || constant_of(name) != nullptr; }

  GraphProto& graph_;
  std::unordered_map<std::string, const TensorProto*> constants_;
  std::unordered_map<std::string, std::size_t> maker_;
  std::unordered_map<std::string, std::vector<std::size_t>> readers_;
  std::set<std::string> outputs_, stored_;
  bool nested_ = false;
};

}  // namespace

void join_quantized(GraphProto& graph) { Joiner(graph).run(); }

}  // namespace tern::onnx
