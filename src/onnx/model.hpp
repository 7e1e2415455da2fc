#pragma once
// The messages of ONNX's files as plain data: what onnx.proto calls ModelProto, GraphProto and so on, without what
// nobody here reads (documentation, annotations).

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::onnx {

/// TensorProto.DataType: onnx.proto gives the numbers.
enum class Element : std::int32_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  bfloat16 = 16
};
/// "uint16"; "type 99" for a number without a name.
std::string name_of_element(std::int64_t type);
/// The dtype of an element type, absent where no tensor has it.
std::optional<DType> dtype_of_element(std::int64_t type);
std::int64_t element_of(DType dtype);

struct TensorProto {
  std::string name;
  std::vector<std::int64_t> dims;
  std::int64_t type = 0;
  std::string_view raw;  // lies in the bytes of the file
  bool has_raw = false;
  std::vector<float> floats;  // one of these where there is no raw data
  std::vector<double> doubles;
  std::vector<std::int64_t> integers;  // of int32_data, int64_data and uint64_data
  bool external = false;
  std::map<std::string, std::string> place;  // of external data: location, offset, length
};

struct GraphProto;

struct AttributeProto {
  enum Type : std::int32_t { none = 0, number, integer, text, tensor, graph, numbers, integers, texts };
  std::string name, refers;  // refers: to an attribute of the function around it
  std::int32_t type = none;
  float f = 0;
  std::int64_t i = 0;
  std::string s;
  std::shared_ptr<TensorProto> t;
  std::shared_ptr<GraphProto> g;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;
};

struct NodeProto {
  std::string name, type, domain, overload;
  std::vector<std::string> inputs, outputs;  // "": left out
  std::vector<AttributeProto> attributes;
};

/// A size: a number, a name, or neither.
struct DimensionProto {
  std::optional<std::int64_t> value;
  std::string name;
};

struct ValueProto {
  std::string name;
  std::int64_t element = 0;
  std::string other;  // "sequence", "optional", "map" or "sparse tensor": no tensor
  std::optional<std::vector<DimensionProto>> shape;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<ValueProto> inputs, outputs;
  std::vector<std::string> sparse;  // sparse initializers, by name
};

struct FunctionProto {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<AttributeProto> defaults;
  std::vector<NodeProto> nodes;
  std::map<std::string, std::int64_t> opsets;
};

struct ModelProto {
  std::int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, std::int64_t> opsets;  // "" is ONNX's own domain
  GraphProto graph;
  std::vector<FunctionProto> functions;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<const std::string> bytes;  // keeps raw data
  std::string folder;                        // of external data; empty: there is none
};

/// Reads the message of a file. `name` is that of the file, for errors. Throws FileError.
ModelProto parse_model(std::shared_ptr<const std::string> bytes, const std::string& name);
/// The same for a file with one TensorProto; the tensor needs `bytes` as long as it lives.
TensorProto parse_tensor(std::string_view bytes, const std::string& name);
/// The elements as a tensor. `folder` has external data. Throws FileError, or OnnxError for an element type that no
/// tensor has.
Tensor to_tensor(const TensorProto& proto, const std::string& folder);

/// What is wrong with names: values and attributes that have the name of another one.
std::set<std::string> ambiguous_names(const ModelProto& model);

/// The bytes of a message.
std::string to_bytes(const ModelProto& model);
/// All elements of a tensor as a message with raw data, which lies in `storage`.
TensorProto to_proto(const Tensor& tensor, const std::string& name, std::string& storage);

}  // namespace tern::onnx
