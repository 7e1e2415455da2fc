// Messages as bytes.

#include <protozero/pbf_writer.hpp>

#include "onnx/model.hpp"

namespace tern::onnx {

namespace {

using Writer = protozero::pbf_writer;

std::string bytes_of(const TensorProto& tensor) {
  std::string bytes;
  Writer writer(bytes);
  writer.add_packed_int64(1, tensor.dims.begin(), tensor.dims.end());
  writer.add_int32(2, static_cast<std::int32_t>(tensor.type));
  if (!tensor.floats.empty()) writer.add_packed_float(4, tensor.floats.begin(), tensor.floats.end());
  if (!tensor.integers.empty()) {
    const bool wide = tensor.type == static_cast<std::int64_t>(Element::int64);
    writer.add_packed_int64(wide ? 7 : 5, tensor.integers.begin(), tensor.integers.end());
  }
  if (!tensor.name.empty()) writer.add_string(8, tensor.name);
  if (tensor.has_raw) writer.add_bytes(9, tensor.raw.data(), tensor.raw.size());
  if (!tensor.doubles.empty()) writer.add_packed_double(10, tensor.doubles.begin(), tensor.doubles.end());
  for (const auto& [key, value] : tensor.place) {
    Writer entry(writer, 13);
    entry.add_string(1, key);
    entry.add_string(2, value);
  }
  if (tensor.external) writer.add_int32(14, 1);
  return bytes;
}

std::string bytes_of(const GraphProto& graph);

std::string bytes_of(const AttributeProto& attribute) {
  std::string bytes;
  Writer writer(bytes);
  writer.add_string(1, attribute.name);
  if (!attribute.refers.empty()) writer.add_string(21, attribute.refers);
  writer.add_int32(20, attribute.type);
  switch (attribute.type) {
    case AttributeProto::number:
      writer.add_float(2, attribute.f);
      break;
    case AttributeProto::integer:
      writer.add_int64(3, attribute.i);
      break;
    case AttributeProto::text:
      writer.add_bytes(4, attribute.s);
      break;
    case AttributeProto::tensor:
      if (attribute.t) writer.add_message(5, bytes_of(*attribute.t));
      break;
    case AttributeProto::graph:
      if (attribute.g) writer.add_message(6, bytes_of(*attribute.g));
      break;
    case AttributeProto::numbers:
      writer.add_packed_float(7, attribute.floats.begin(), attribute.floats.end());
      break;
    case AttributeProto::integers:
      writer.add_packed_int64(8, attribute.ints.begin(), attribute.ints.end());
      break;
    default:
      for (const std::string& text : attribute.strings) writer.add_bytes(9, text);
  }
  return bytes;
}

std::string bytes_of(const NodeProto& node) {
  std::string bytes;
  Writer writer(bytes);
  for (const std::string& name : node.inputs) writer.add_string(1, name);
  for (const std::string& name : node.outputs) writer.add_string(2, name);
  if (!node.name.empty()) writer.add_string(3, node.name);
  writer.add_string(4, node.type);
  for (const AttributeProto& attribute : node.attributes) writer.add_message(5, bytes_of(attribute));
  if (!node.domain.empty()) writer.add_string(7, node.domain);
  return bytes;
}

std::string bytes_of(const ValueProto& value) {
  std::string shape;
  Writer sizes(shape);
  for (const DimensionProto& size : value.shape.value_or(std::vector<DimensionProto>{})) {
    Writer dimension(sizes, 1);
    if (size.value)
      dimension.add_int64(1, *size.value);
    else if (!size.name.empty())
      dimension.add_string(2, size.name);
  }
  std::string tensor;
  Writer of_tensor(tensor);
  of_tensor.add_int32(1, static_cast<std::int32_t>(value.element));
  if (value.shape) of_tensor.add_message(2, shape);
  std::string type;
  Writer(type).add_message(1, tensor);
  std::string bytes;
  Writer writer(bytes);
  writer.add_string(1, value.name);
  writer.add_message(2, type);
  return bytes;
}

std::string bytes_of(const GraphProto& graph) {
  std::string bytes;
  Writer writer(bytes);
  for (const NodeProto& node : graph.nodes) writer.add_message(1, bytes_of(node));
  writer.add_string(2, graph.name);
  for (const TensorProto& tensor : graph.initializers) writer.add_message(5, bytes_of(tensor));
  for (const ValueProto& value : graph.inputs) writer.add_message(11, bytes_of(value));
  for (const ValueProto& value : graph.outputs) writer.add_message(12, bytes_of(value));
  return bytes;
}

std::string bytes_of(const std::string& domain, std::int64_t version) {
  std::string bytes;
  Writer writer(bytes);
  writer.add_string(1, domain);
  writer.add_int64(2, version);
  return bytes;
}

std::string bytes_of(const FunctionProto& function) {
  std::string bytes;
  Writer writer(bytes);
  writer.add_string(1, function.name);
  for (const std::string& name : function.inputs) writer.add_string(4, name);
  for (const std::string& name : function.outputs) writer.add_string(5, name);
  for (const std::string& name : function.attributes) writer.add_string(6, name);
  for (const NodeProto& node : function.nodes) writer.add_message(7, bytes_of(node));
  for (const auto& [domain, version] : function.opsets) writer.add_message(9, bytes_of(domain, version));
  writer.add_string(10, function.domain);
  for (const AttributeProto& attribute : function.defaults) writer.add_message(11, bytes_of(attribute));
  return bytes;
}

}  // namespace

std::string to_bytes(const ModelProto& model) {
  std::string bytes;
  Writer writer(bytes);
  writer.add_int64(1, model.ir_version);
  writer.add_string(2, model.producer);
  writer.add_message(7, bytes_of(model.graph));
  for (const auto& [domain, version] : model.opsets) writer.add_message(8, bytes_of(domain, version));
  for (const auto& [key, value] : model.metadata) {
    Writer entry(writer, 14);
    entry.add_string(1, key);
    entry.add_string(2, value);
  }
  for (const FunctionProto& function : model.functions) writer.add_message(25, bytes_of(function));
  return bytes;
}

}  // namespace tern::onnx
