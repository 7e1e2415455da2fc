#pragma once
// Runs a model node by node, with graph::trace listening: what depends on inputs or parameters becomes part of the
// graph, everything else is computed at once.

#include <unordered_map>

#include "onnx/state.hpp"

namespace tern::onnx {

/// The values of a graph by name; those of the graphs around it are seen too.
class Values {
 public:
  explicit Values(const Values* outer = nullptr) : outer_(outer) {}
  /// Null where nothing has the name.
  const Item* find(const std::string& name) const;
  void set(const std::string& name, Item item) { items_[name] = std::move(item); }

 private:
  const Values* outer_;
  std::unordered_map<std::string, Item> items_;
};

/// Operator sets, attributes and the depth of the graph or function whose nodes run.
struct Frame {
  Values& values;
  const std::map<std::string, std::int64_t>& opsets;
  const std::map<std::string, AttributeProto>* attributes = nullptr;  // of the call of a function
  int depth = 0;
};

class Importer {
 public:
  Importer(ModelProto model, const LoadOptions& options, std::string name);
  graph::Graph build();

 private:
  struct Input {
    std::string name;
    DType dtype = DType::float32;
    std::int64_t element = 0;              // as Item has it
    std::vector<std::int64_t> shape = {};  // -1: the batch
  };

  void read_initializers();
  void read_inputs();
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, bool first);
  void run_nodes(const std::vector<NodeProto>& nodes, Frame& frame);
  void run_node(const NodeProto& node, Frame& frame);
  std::vector<Item> results_of(const NodeProto& node, const Operator& function, std::int64_t opset,
                               const std::vector<const Item*>& inputs);
  std::vector<Item> call_function(const FunctionProto& function, const NodeProto& node,
                                  const std::vector<const Item*>& inputs, const Frame& frame);
  /// The results of If, Loop and Scan.
  std::vector<Item> run_if(const NodeProto& node, const std::vector<const Item*>& inputs, Frame& frame);
  std::vector<Item> run_loop(const NodeProto& node, const std::vector<const Item*>& inputs, Frame& frame);
  std::vector<Item> run_scan(const NodeProto& node, const std::vector<const Item*>& inputs, Frame& frame);
  std::vector<Item> run_flex_attention(const NodeProto& node, const std::vector<const Item*>& inputs, Frame& frame);
  /// The results of a graph in an attribute for these inputs.
  std::vector<Item> run_body(const GraphProto& body, const std::vector<Item>& inputs, Frame& frame);

  void lack(const std::string& node, const std::string& op, const std::string& what, const std::string& advice,
            const std::string& inputs = {});
  graph::Graph finished(const graph::Graph& traced) const;

  ModelProto model_;
  const LoadOptions& options_;
  std::string name_;
  std::map<std::string, Item> initializers_;
  std::vector<Input> inputs_;
  std::vector<std::string> parameters_;
  std::vector<Lack> lacks_;
  std::int64_t budget_ = 0;  // nodes that may still run: files are not trusted
  bool batch_ = false;
};

/// The attribute of a node, null where it has none.
const AttributeProto* find_attribute(const NodeProto& node, std::string_view name);

}  // namespace tern::onnx
