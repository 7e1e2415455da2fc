#include "graph/batches.hpp"

#include <algorithm>
#include <cstring>

#include "graph/batch_text.hpp"

namespace tern::graph {

namespace {

/// Whether two constants of one dtype and shape have the same bytes.
bool same_constant(const Tensor& a, const Tensor& b) {
  if (a.shared_storage() == b.shared_storage() && a.offset() == b.offset() && a.strides() == b.strides()) return true;
  const operators::Listening nobody(nullptr);
  const Tensor own = a.detach().contiguous(), other = b.detach().contiguous();
  return with_type_of(own.dtype(), [&]<class T>(T) {
    const std::span<const T> left = own.read<T>(), right = other.read<T>();
    return left.size() == right.size() &&
           (left.empty() || std::memcmp(left.data(), right.data(), left.size_bytes()) == 0);
  });
}

std::string called(const Node& node) {
  return node.module.empty() ? node.op->name() : node.op->name() + " of " + node.module;
}

/// The nodes of a trace that are no copies, and for each value the one that it is a copy of.
struct Work {
  explicit Work(const Structure& traced) : structure(traced), original(traced.values.size()) {
    for (std::size_t id = 0; id < original.size(); ++id) original[id] = static_cast<int>(id);
    for (const Node& node : structure.nodes)
      if (node.op->name() == "copy")
        original[node.results[0]] = original[node.inputs[0]];
      else
        nodes.push_back(&node);
  }
  const Structure& structure;
  std::vector<int> original;
  std::vector<const Node*> nodes;
};

/// Which value of one trace is which of another.
class Pairs {
 public:
  Pairs(const Work& own, const Work& other, bool sizes)
      : own_(own), other_(other), sizes_(sizes), partner_(own.original.size(), -1) {}
  /// Whether they are one value; tensors that both hold are where their bytes are equal.
  bool same(int a, int b) {
    if (a < 0 || b < 0) return a == b;
    a = own_.original[a];
    b = other_.original[b];
    if (partner_[a] >= 0) return partner_[a] == b;
    const Value &own = own_.structure.values[a], &other = other_.structure.values[b];
    return own.kind == other.kind && own.tensor.defined() && other.tensor.defined() && join(a, b) &&
           own.shape == other.shape && same_constant(own.tensor, other.tensor);
  }
  /// Takes two values for one; false where their dtypes or shapes differ.
  bool join(int a, int b) {
    const Value &own = own_.structure.values[a], &other = other_.structure.values[b];
    partner_[a] = b;
    return own.dtype == other.dtype && (!sizes_ || own.shape == other.shape);
  }

 private:
  const Work &own_, &other_;
  bool sizes_;
  std::vector<int> partner_;
};

}  // namespace

void join(Structure& a, const Structure& b, std::int64_t n, std::int64_t m) {
  const auto need = [&](bool same, const std::string& what) {
    if (!same) throw GraphError(message("graph: at a batch of ", m, ' ', what));
  };
  need(a.results == b.results && a.inputs == b.inputs, "the program has other results");
  for (std::size_t i = 0; i < std::min(a.nodes.size(), b.nodes.size()); ++i) {
    const Node &own = a.nodes[i], &other = b.nodes[i];
    need(own.op == other.op && own.inputs == other.inputs && own.results == other.results,
         message("the program calls ", called(other), ", and ", called(own), " at ", n));
  }
  need(a.nodes.size() == b.nodes.size() && a.values.size() == b.values.size(),
       message("the program calls ", b.nodes.size(), " operators, and ", a.nodes.size(), " at ", n));
  std::vector<std::vector<Linear>> shapes;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const Value &own = a.values[i], &other = b.values[i];
    need(own.kind == other.kind && own.dtype == other.dtype && own.shape.size() == other.shape.size(),
         own.name + " is another kind of value");
    std::vector<Linear> shape;
    for (std::size_t d = 0; d < own.shape.size(); ++d)
      shape.push_back(joined_number(own.shape[d].fixed, n, other.shape[d].fixed, m));
    need(!own.tensor.defined() || (own.shape == other.shape && same_constant(own.tensor, other.tensor)),
         "a constant, " + own.name + ", is another one");
    shapes.push_back(std::move(shape));
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const std::string text = a.nodes[i].op->write(a.nodes[i].attributes),
                      changed = b.nodes[i].op->write(b.nodes[i].attributes);
    texts.push_back(text == changed ? "" : joined_text(text, n, changed, m));
  }
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i].shape = std::move(shapes[i]);
  for (std::size_t i = 0; i < a.nodes.size(); ++i) a.nodes[i].by_batch = std::move(texts[i]);
  a.batch = n;
}

std::string difference_at(const Structure& whole, const Structure& program, std::int64_t m) {
  if (whole.nodes.size() != program.nodes.size() || whole.values.size() != program.values.size() ||
      whole.results != program.results)
    return "other work";
  for (std::size_t i = 0; i < whole.values.size(); ++i) {
    const Value &own = whole.values[i], &there = program.values[i];
    if (own.kind != there.kind || own.dtype != there.dtype || own.shape.size() != there.shape.size() ||
        own.shape_at(m) != there.shape_at(m) || own.tensor.defined() != there.tensor.defined() ||
        (own.tensor.defined() && !same_constant(own.tensor, there.tensor)))
      return own.name;
  }
  for (std::size_t i = 0; i < whole.nodes.size(); ++i) {
    const Node &own = whole.nodes[i], &there = program.nodes[i];
    if (own.op != there.op || own.inputs != there.inputs || own.results != there.results) return called(there);
    const std::string text = own.by_batch.empty() ? own.op->write(own.attributes) : text_at(own.by_batch, m);
    if (text != there.op->write(there.attributes)) return called(there);
  }
  return "";
}

std::string difference_of_work(const Structure& graph, const Structure& program, bool sizes) {
  const Work own(graph), other(program);
  Pairs pairs(own, other, sizes);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) pairs.join(graph.inputs[i], program.inputs[i]);
  for (std::size_t i = 0; i < std::max(own.nodes.size(), other.nodes.size()); ++i) {
    if (i >= other.nodes.size()) return "the program calls no " + own.nodes[i]->op->name();
    const Node& there = *other.nodes[i];
    if (i >= own.nodes.size()) return "the program calls " + called(there) + " as well";
    const Node& node = *own.nodes[i];
    if (node.op != there.op || node.results.size() != there.results.size())
      return message("the program calls ", called(there), " where the graph has ", node.op->name());
    bool same = node.inputs.size() == there.inputs.size() &&
                node.op->write(node.attributes) == there.op->write(there.attributes);
    for (std::size_t k = 0; same && k < node.inputs.size(); ++k) same = pairs.same(node.inputs[k], there.inputs[k]);
    for (std::size_t k = 0; same && k < node.results.size(); ++k) same = pairs.join(node.results[k], there.results[k]);
    if (!same) return "the program calls " + called(there) + " with other inputs, sizes or options";
  }
  for (std::size_t i = 0; i < graph.results.size(); ++i)
    if (!pairs.same(graph.results[i], program.results[i])) return "the program has another result";
  return "";
}

}  // namespace tern::graph
