// The wire format. Lengths are checked by protozero; fields of a type that onnx.proto does not give them are skipped,
// as every reader of protobuf does.

#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>

#include "onnx/model.hpp"

namespace tern::onnx {

namespace {

using Reader = protozero::pbf_reader;
using Wire = protozero::pbf_wire_type;

constexpr int deepest = 64;  // graphs within graphs, and types within types

bool is(const Reader& reader, Wire wire) { return reader.wire_type() == wire; }
std::string_view view_of(Reader& reader) {
  const protozero::data_view view = reader.get_view();
  return {view.data(), view.size()};
}

/// Calls field(reader) for each field; the function leaves a field that it does not know unread.
template <class Field>
void each_field(std::string_view bytes, const Field& field) {
  Reader reader(bytes.data(), bytes.size());
  while (reader.next())
    if (!field(reader)) reader.skip();
}

bool read(Reader& reader, std::string& text) {
  if (!is(reader, Wire::length_delimited)) return false;
  text = view_of(reader);
  return true;
}
bool read(Reader& reader, std::int64_t& number) {
  if (!is(reader, Wire::varint)) return false;
  number = reader.get_int64();
  return true;
}
bool append(Reader& reader, std::vector<std::string>& texts) { return read(reader, texts.emplace_back()); }

/// Numbers of a repeated field, packed or one by one.
bool append(Reader& reader, std::vector<std::int64_t>& numbers) {
  if (is(reader, Wire::varint)) {
    numbers.push_back(reader.get_int64());
    return true;
  }
  if (!is(reader, Wire::length_delimited)) return false;
  for (const std::int64_t number : reader.get_packed_int64()) numbers.push_back(number);
  return true;
}
bool append(Reader& reader, std::vector<float>& numbers) {
  if (is(reader, Wire::fixed32)) {
    numbers.push_back(reader.get_float());
    return true;
  }
  if (!is(reader, Wire::length_delimited)) return false;
  for (const float number : reader.get_packed_float()) numbers.push_back(number);
  return true;
}
bool append(Reader& reader, std::vector<double>& numbers) {
  if (is(reader, Wire::fixed64)) {
    numbers.push_back(reader.get_double());
    return true;
  }
  if (!is(reader, Wire::length_delimited)) return false;
  for (const double number : reader.get_packed_double()) numbers.push_back(number);
  return true;
}

/// A key and a number or a text, as operator sets and properties have them.
std::pair<std::string, std::int64_t> opset_of(std::string_view bytes) {
  std::pair<std::string, std::int64_t> result;
  each_field(bytes, [&](Reader& reader) {
    if (reader.tag() == 1) return read(reader, result.first);
    return reader.tag() == 2 && read(reader, result.second);
  });
  if (result.first == "ai.onnx") result.first.clear();
  return result;
}
std::pair<std::string, std::string> property_of(std::string_view bytes) {
  std::pair<std::string, std::string> result;
  each_field(bytes, [&](Reader& reader) {
    if (reader.tag() == 1) return read(reader, result.first);
    return reader.tag() == 2 && read(reader, result.second);
  });
  return result;
}

TensorProto tensor_of(std::string_view bytes) {
  TensorProto tensor;
  each_field(bytes, [&](Reader& reader) {
    switch (reader.tag()) {
      case 1:
        return append(reader, tensor.dims);
      case 2:
        return read(reader, tensor.type);
      case 4:
        return append(reader, tensor.floats);
      case 5:
      case 7:
      case 11:
        return append(reader, tensor.integers);
      case 8:
        return read(reader, tensor.name);
      case 9:
        if (!is(reader, Wire::length_delimited)) return false;
        tensor.raw = view_of(reader);
        tensor.has_raw = true;
        return true;
      case 10:
        return append(reader, tensor.doubles);
      case 13:
        if (!is(reader, Wire::length_delimited)) return false;
        tensor.place.insert(property_of(view_of(reader)));
        return true;
      case 14: {
        std::int64_t location = 0;
        if (!read(reader, location)) return false;
        tensor.external = location == 1;
        return true;
      }
      default:
        return false;
    }
  });
  return tensor;
}

GraphProto graph_of(std::string_view bytes, int depth);

AttributeProto attribute_of(std::string_view bytes, int depth) {
  AttributeProto attribute;
  std::int64_t type = 0;
  each_field(bytes, [&](Reader& reader) {
    switch (reader.tag()) {
      case 1:
        return read(reader, attribute.name);
      case 2:
        if (!is(reader, Wire::fixed32)) return false;
        attribute.f = reader.get_float();
        return true;
      case 3:
        return read(reader, attribute.i);
      case 4:
        return read(reader, attribute.s);
      case 5:
        if (!is(reader, Wire::length_delimited)) return false;
        attribute.t = std::make_shared<TensorProto>(tensor_of(view_of(reader)));
        return true;
      case 6:
        if (!is(reader, Wire::length_delimited)) return false;
        attribute.g = std::make_shared<GraphProto>(graph_of(view_of(reader), depth + 1));
        return true;
      case 7:
        return append(reader, attribute.floats);
      case 8:
        return append(reader, attribute.ints);
      case 9:
        return append(reader, attribute.strings);
      case 20:
        return read(reader, type);
      case 21:
        return read(reader, attribute.refers);
      default:
        return false;
    }
  });
  attribute.type = static_cast<std::int32_t>(type);
  // Old files have no type.
  if (type == 0 && attribute.refers.empty()) {
    if (attribute.t)
      attribute.type = AttributeProto::tensor;
    else if (attribute.g)
      attribute.type = AttributeProto::graph;
    else if (!attribute.ints.empty())
      attribute.type = AttributeProto::integers;
    else if (!attribute.floats.empty())
      attribute.type = AttributeProto::numbers;
    else if (!attribute.strings.empty())
      attribute.type = AttributeProto::texts;
    else if (!attribute.s.empty())
      attribute.type = AttributeProto::text;
    else
      attribute.type = attribute.f != 0 ? AttributeProto::number : AttributeProto::integer;
  }
  return attribute;
}

NodeProto node_of(std::string_view bytes, int depth) {
  NodeProto node;
  each_field(bytes, [&](Reader& reader) {
    switch (reader.tag()) {
      case 1:
        return append(reader, node.inputs);
      case 2:
        return append(reader, node.outputs);
      case 3:
        return read(reader, node.name);
      case 4:
        return read(reader, node.type);
      case 5:
        if (!is(reader, Wire::length_delimited)) return false;
        node.attributes.push_back(attribute_of(view_of(reader), depth));
        return true;
      case 7:
        return read(reader, node.domain);
      case 8:
        return read(reader, node.overload);
      default:
        return false;
    }
  });
  if (node.domain == "ai.onnx") node.domain.clear();
  return node;
}

std::vector<DimensionProto> shape_of(std::string_view bytes) {
  std::vector<DimensionProto> shape;
  each_field(bytes, [&](Reader& reader) {
    if (reader.tag() != 1 || !is(reader, Wire::length_delimited)) return false;
    DimensionProto& dimension = shape.emplace_back();
    each_field(view_of(reader), [&](Reader& inner) {
      std::int64_t number = 0;
      if (inner.tag() == 1 && read(inner, number)) {
        dimension.value = number;
        return true;
      }
      return inner.tag() == 2 && read(inner, dimension.name);
    });
    return true;
  });
  return shape;
}

ValueProto value_of(std::string_view bytes) {
  ValueProto value;
  each_field(bytes, [&](Reader& reader) {
    if (reader.tag() == 1) return read(reader, value.name);
    if (reader.tag() != 2 || !is(reader, Wire::length_delimited)) return false;
    each_field(view_of(reader), [&](Reader& type) {
      switch (type.tag()) {
        case 4:
          value.other = "sequence";
          return false;
        case 5:
          value.other = "map";
          return false;
        case 8:
          value.other = "sparse tensor";
          return false;
        case 9:
          value.other = "optional";
          return false;
        default:
          if (type.tag() != 1 || !is(type, Wire::length_delimited)) return false;
      }
      each_field(view_of(type), [&](Reader& tensor) {
        if (tensor.tag() == 1) return read(tensor, value.element);
        if (tensor.tag() != 2 || !is(tensor, Wire::length_delimited)) return false;
        value.shape = shape_of(view_of(tensor));
        return true;
      });
      return true;
    });
    return true;
  });
  return value;
}

/// Sparse tensors are not read, only their names, for the message.
std::string sparse_name(std::string_view bytes) {
  std::string name;
  each_field(bytes, [&](Reader& reader) {
    if (reader.tag() != 1 || !is(reader, Wire::length_delimited)) return false;
    name = tensor_of(view_of(reader)).name;
    return true;
  });
  return name;
}

GraphProto graph_of(std::string_view bytes, int depth) {
  expects<FileError>(depth <= deepest, "more than ", deepest, " graphs within each other");
  GraphProto graph;
  each_field(bytes, [&](Reader& reader) {
    if (reader.tag() == 2) return read(reader, graph.name);
    if (!is(reader, Wire::length_delimited)) return false;
    switch (reader.tag()) {
      case 1:
        graph.nodes.push_back(node_of(view_of(reader), depth));
        return true;
      case 5:
        graph.initializers.push_back(tensor_of(view_of(reader)));
        return true;
      case 11:
        graph.inputs.push_back(value_of(view_of(reader)));
        return true;
      case 12:
        graph.outputs.push_back(value_of(view_of(reader)));
        return true;
      case 15:
        graph.sparse.push_back(sparse_name(view_of(reader)));
        return true;
      default:
        return false;
    }
  });
  return graph;
}

FunctionProto function_of(std::string_view bytes) {
  FunctionProto function;
  each_field(bytes, [&](Reader& reader) {
    switch (reader.tag()) {
      case 1:
        return read(reader, function.name);
      case 4:
        return append(reader, function.inputs);
      case 5:
        return append(reader, function.outputs);
      case 6:
        return append(reader, function.attributes);
      case 7:
        if (!is(reader, Wire::length_delimited)) return false;
        function.nodes.push_back(node_of(view_of(reader), 0));
        return true;
      case 9:
        if (!is(reader, Wire::length_delimited)) return false;
        function.opsets.insert(opset_of(view_of(reader)));
        return true;
      case 10:
        return read(reader, function.domain);
      case 11:
        if (!is(reader, Wire::length_delimited)) return false;
        function.defaults.push_back(attribute_of(view_of(reader), 0));
        return true;
      case 13:
        return read(reader, function.overload);
      default:
        return false;
    }
  });
  if (function.domain == "ai.onnx") function.domain.clear();
  return function;
}

template <class Read>
auto guarded(const std::string& name, const Read& read_all) {
  try {
    return read_all();
  } catch (const protozero::exception& error) {
    throw FileError(message(name, ": not an ONNX file, or a damaged one (", error.what(), ")"));
  } catch (const FileError& error) {
    throw FileError(message(name, ": not an ONNX file, or a damaged one (", error.what(), ")"));
  }
}

}  // namespace

ModelProto parse_model(std::shared_ptr<const std::string> bytes, const std::string& name) {
  return guarded(name, [&] {
    ModelProto model;
    bool has_graph = false;
    each_field(*bytes, [&](Reader& reader) {
      switch (reader.tag()) {
        case 1:
          return read(reader, model.ir_version);
        case 2:
          return read(reader, model.producer);
        case 7:
          if (!is(reader, Wire::length_delimited)) return false;
          model.graph = graph_of(view_of(reader), 0);
          return has_graph = true;
        case 8:
          if (!is(reader, Wire::length_delimited)) return false;
          model.opsets.insert(opset_of(view_of(reader)));
          return true;
        case 14:
          if (!is(reader, Wire::length_delimited)) return false;
          model.metadata.insert(property_of(view_of(reader)));
          return true;
        case 25:
          if (!is(reader, Wire::length_delimited)) return false;
          model.functions.push_back(function_of(view_of(reader)));
          return true;
        default:
          return false;
      }
    });
    expects<FileError>(has_graph, "it has no graph");
    model.bytes = std::move(bytes);
    return model;
  });
}

TensorProto parse_tensor(std::string_view bytes, const std::string& name) {
  return guarded(name, [&] { return tensor_of(bytes); });
}

}  // namespace tern::onnx
