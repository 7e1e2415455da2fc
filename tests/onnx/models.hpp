#pragma once
// Small models, written by hand.

#include <initializer_list>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "onnx/model.hpp"
#include "tern/onnx/onnx.hpp"
#include "tern/tern.hpp"

namespace test {

using namespace tern;
using onnx::AttributeProto;
using Integers = std::vector<std::int64_t>;

inline AttributeProto attribute(const std::string& name, std::int64_t value) {
  AttributeProto made;
  made.name = name;
  made.type = AttributeProto::integer;
  made.i = value;
  return made;
}
inline AttributeProto attribute(const std::string& name, float value) {
  AttributeProto made;
  made.name = name;
  made.type = AttributeProto::number;
  made.f = value;
  return made;
}
inline AttributeProto attribute(const std::string& name, const std::string& value) {
  AttributeProto made;
  made.name = name;
  made.type = AttributeProto::text;
  made.s = value;
  return made;
}
inline AttributeProto attribute(const std::string& name, std::vector<std::int64_t> values) {
  AttributeProto made;
  made.name = name;
  made.type = AttributeProto::integers;
  made.ints = std::move(values);
  return made;
}
inline AttributeProto attribute(const std::string& name, const onnx::GraphProto& graph) {
  AttributeProto made;
  made.name = name;
  made.type = AttributeProto::graph;
  made.g = std::make_shared<onnx::GraphProto>(graph);
  return made;
}

inline onnx::NodeProto node(const std::string& type, std::vector<std::string> inputs, std::vector<std::string> outputs,
                            std::vector<AttributeProto> attributes = {}) {
  onnx::NodeProto made;
  made.type = type;
  if (const std::size_t dot = type.rfind('.'); dot != std::string::npos) {
    made.domain = type.substr(0, dot);
    made.type = type.substr(dot + 1);
  }
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  made.attributes = std::move(attributes);
  return made;
}

inline Tensor integers(const Integers& values) {
  return tern::tensor(values, {static_cast<std::int64_t>(values.size())});
}
inline std::vector<std::string> sizes_of(const Tensor& x) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : x.shape()) sizes.push_back(std::to_string(size));
  return sizes;
}

/// A model that is being written: sizes are numbers or names.
class Model {
 public:
  explicit Model(std::int64_t opset = 17) {
    proto.ir_version = 8;
    proto.opsets[""] = opset;
    proto.graph.name = "net";
  }
  Model& input(const std::string& name, const std::vector<std::string>& shape, DType dtype = DType::float32) {
    proto.graph.inputs.push_back(value(name, shape, dtype));
    return *this;
  }
  Model& output(const std::string& name) {
    proto.graph.outputs.push_back(value(name, {}, DType::float32));
    proto.graph.outputs.back().shape.reset();
    return *this;
  }
  Model& initializer(const std::string& name, const Tensor& tensor) {
    proto.graph.initializers.push_back(onnx::to_proto(tensor, name, storage_->emplace_back()));
    return *this;
  }
  Model& add(onnx::NodeProto made) {
    proto.graph.nodes.push_back(std::move(made));
    return *this;
  }
  std::string bytes() const { return onnx::to_bytes(proto); }
  graph::Graph read(const onnx::LoadOptions& options = {}) const {
    const std::string all = bytes();
    return onnx::read(std::as_bytes(std::span(all.data(), all.size())), options);
  }

  static onnx::ValueProto value(const std::string& name, const std::vector<std::string>& shape, DType dtype) {
    onnx::ValueProto made;
    made.name = name;
    made.element = onnx::element_of(dtype);
    made.shape.emplace();
    for (const std::string& size : shape) {
      onnx::DimensionProto dimension;
      if (!size.empty() && size.find_first_not_of("0123456789") == std::string::npos)
        dimension.value = std::stoll(size);
      else
        dimension.name = size;
      made.shape->push_back(dimension);
    }
    return made;
  }

  onnx::ModelProto proto;

 private:
  std::shared_ptr<std::list<std::string>> storage_ = std::make_shared<std::list<std::string>>();  // copies share it
};

/// A model with one fault.
struct Broken {
  const char* fault;
  Model model;
  std::vector<std::string> words;  ///< what the message says
};

/// Convolution, pool and two linear layers, as LeNet has them, at a symbolic batch.
inline Model lenet() {
  Generator generator(3);
  const auto normal = [&](const Shape& shape) { return randn(shape, generator, 0, 0.2); };
  Model model;
  model.input("image", {"N", "1", "28", "28"}).output("logits");
  model.initializer("features.weight", normal({8, 1, 5, 5})).initializer("features.bias", normal({8}));
  model.initializer("hidden.weight", normal({32, 1152})).initializer("hidden.bias", normal({32}));
  model.initializer("head.weight", normal({10, 32})).initializer("head.bias", normal({10}));
  model.initializer("rows", tern::tensor<std::int64_t>({0, -1}));
  model.add(
      node("Conv", {"image", "features.weight", "features.bias"}, {"a"}, {attribute("kernel_shape", Integers{5, 5})}));
  model.add(node("Relu", {"a"}, {"b"}));
  model.add(
      node("MaxPool", {"b"}, {"c"}, {attribute("kernel_shape", Integers{2, 2}), attribute("strides", Integers{2, 2})}));
  model.add(node("Reshape", {"c", "rows"}, {"d"}));
  model.add(node("Gemm", {"d", "hidden.weight", "hidden.bias"}, {"e"}, {attribute("transB", std::int64_t{1})}));
  model.add(node("Relu", {"e"}, {"f"}));
  model.add(node("Gemm", {"f", "head.weight", "head.bias"}, {"logits"}, {attribute("transB", std::int64_t{1})}));
  return model;
}

}  // namespace test
