#pragma once
// Writing graphs: each operator of a graph becomes one node of ONNX, or a few.

#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/model.hpp"
#include "onnx/state.hpp"
#include "tern/graph/graph.hpp"
#include "tern/operators/operators.hpp"

namespace tern::onnx {

namespace op = tern::operators;

AttributeProto make_attribute(const std::string& name, std::int64_t value);
AttributeProto make_attribute(const std::string& name, double value);
AttributeProto make_attribute(const std::string& name, const char* value);
AttributeProto make_attribute(const std::string& name, const std::vector<std::int64_t>& values);

/// Collects the nodes and initialisers of a model.
class Writer {
 public:
  explicit Writer(const graph::Structure& structure);
  const graph::Structure& structure() const { return structure_; }

  using Names = std::vector<std::string>;
  /// Adds a node with results of these names.
  void add(const std::string& type, const Names& inputs, const Names& outputs,
           std::vector<AttributeProto> attributes = {});
  /// Adds a node with one result, whose new name it returns.
  std::string node(const std::string& type, const Names& inputs, std::vector<AttributeProto> attributes = {});
  /// An initialiser.
  std::string constant(const Tensor& tensor);
  std::string number(double value, DType dtype);
  std::string integers(const std::vector<std::int64_t>& values);
  /// Sizes as a tensor [rank]; computed from the first input's batch where they follow it.
  std::string sizes(const std::vector<graph::Linear>& each);

  std::string fresh();
  ModelProto finish();

 private:
  const graph::Structure& structure_;
  GraphProto graph_;
  std::set<std::string> taken_;
  std::list<std::string> storage_;  // of raw data
  std::string batch_;               // the name of [N]
  int made_ = 0;
};

/// One node of the graph that is written.
struct Step {
  Writer& out;
  const graph::Node& node;
  std::vector<std::string> inputs;  // "": left out
  std::vector<std::string> results;

  bool has(std::size_t i) const { return i < inputs.size() && !inputs[i].empty(); }
  const graph::Value& value(std::size_t i) const { return out.structure().values[node.inputs[i]]; }
  const graph::Value& result(std::size_t i = 0) const { return out.structure().values[node.results[i]]; }
  int rank(std::size_t i = 0) const { return static_cast<int>(value(i).shape.size()); }
  /// A size of an input that does not follow the batch; refuses one that does.
  std::int64_t size(std::size_t i, std::int64_t dim) const;
  /// Argument i of the operator, of those that are not tensors.
  template <class T>
  T attribute(std::size_t i = 0) const {
    const T* found = std::any_cast<T>(&node.attributes.values().at(i));
    if (found == nullptr) throw Refusal("has attributes of another form", "");
    return *found;
  }
  /// The same for one that may follow the batch: sizes at the batch n.
  template <class T>
  std::vector<graph::Linear> sizes(std::size_t i = 0) const {
    const std::int64_t n = out.structure().batch;
    const auto at = [&](std::int64_t batch) {
      const op::Attributes attributes = out.structure().attributes_at(node, batch);
      const T* found = std::any_cast<T>(&attributes.values().at(i));
      if (found == nullptr) throw Refusal("has attributes of another form", "");
      return *found;
    };
    return joined(list_of(at(n)), n == 0 ? list_of(at(n)) : list_of(at(n + 1)), n);
  }
  /// Refuses a node whose attributes follow the batch.
  void fixed() const;

  static std::vector<std::int64_t> list_of(std::int64_t value) { return {value}; }
  template <class T>
  static std::vector<std::int64_t> list_of(const T& values) {
    return {values.begin(), values.end()};
  }
  static std::vector<graph::Linear> joined(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b,
                                           std::int64_t n);
};

using Emit = void (*)(const Step&);
using EmitTable = std::map<std::string, Emit, std::less<>>;
void append_written_elementwise(EmitTable& table);
void append_written_shapes(EmitTable& table);
void append_written_networks(EmitTable& table);
void append_written_windows(EmitTable& table);
void append_written_sampling(EmitTable& table);
void append_written_sequences(EmitTable& table);

/// A value and its activation, under the name of the result.
void finish_activated(const Step& step, const std::string& value, Activation activation);
/// Axes 0 ... rank - 1 where none are named.
std::vector<std::int64_t> axes_or_all(const Dims& dims, int rank);

}  // namespace tern::onnx
