// Names in files: each belongs to one value of its graph. Of two values with one name a reader would get either.

#include <set>

#include "onnx/importer.hpp"

namespace tern::onnx {

namespace {

class Names {
 public:
  void check(const GraphProto& graph, const std::string& where) {
    std::set<std::string> made;
    for (const TensorProto& initializer : graph.initializers) made.insert(initializer.name);  // of several the last
    std::set<std::string> inputs;
    for (const ValueProto& input : graph.inputs)  // an initializer may be its default
      if (!inputs.insert(input.name).second) twice.insert(message("has two inputs '", input.name, "'", where));
    made.merge(inputs);
    check(graph.nodes, made, where);
  }
  void check(const FunctionProto& function) {
    check(function.nodes, {function.inputs.begin(), function.inputs.end()}, message(" in function ", function.name));
  }
  std::set<std::string> twice;

 private:
  void check(const std::vector<NodeProto>& nodes, std::set<std::string> made, const std::string& where) {
    for (const NodeProto& node : nodes) {
      for (const std::string& output : node.outputs)
        if (!output.empty() && !made.insert(output).second) twice.insert(message("makes '", output, "' twice", where));
      std::set<std::string> attributes;
      for (const AttributeProto& attribute : node.attributes) {
        if (!attributes.insert(attribute.name).second)
          twice.insert(message("has a node ", node.type, " with two attributes '", attribute.name, "'", where));
        if (attribute.g != nullptr) check(*attribute.g, message(" in a graph of ", node.type));
      }
    }
  }
};

}  // namespace

std::set<std::string> ambiguous_names(const ModelProto& model) {
  Names names;
  names.check(model.graph, "");
  for (const FunctionProto& function : model.functions) names.check(function);
  return std::move(names.twice);
}

}  // namespace tern::onnx
