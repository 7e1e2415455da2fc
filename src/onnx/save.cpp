#include <algorithm>

#include "onnx/writer.hpp"
#include "tern/io/file.hpp"
#include "tern/onnx/onnx.hpp"
#include "tern/tensor/create.hpp"

namespace tern::onnx {

namespace {

constexpr std::int64_t written_opset = 22, written_ir = 10;

const EmitTable& emit_table() {
  static const EmitTable all = [] {
    EmitTable made;
    append_written_elementwise(made);
    append_written_shapes(made);
    append_written_networks(made);
    append_written_windows(made);
    append_written_sampling(made);
    append_written_sequences(made);
    return made;
  }();
  return all;
}

ValueProto described(const graph::Value& value) {
  ValueProto proto;
  proto.name = value.name;
  proto.element = element_of(value.dtype);
  proto.shape.emplace();
  for (const graph::Linear& size : value.shape) {
    DimensionProto& dimension = proto.shape->emplace_back();
    if (size.each == 0)
      dimension.value = size.fixed;
    else
      dimension.name = message(size.each == 1 ? "" : std::to_string(size.each), 'N', size.fixed > 0 ? "+" : "",
                               size.fixed == 0 ? "" : std::to_string(size.fixed));
  }
  return proto;
}

}  // namespace

AttributeProto make_attribute(const std::string& name, std::int64_t value) {
  AttributeProto made;
  made.name = name;
  made.type = AttributeProto::integer;
  made.i = value;
  return made;
}
AttributeProto make_attribute(const std::string& name, double value) {
  AttributeProto made;
  made.name = name;
  made.type = AttributeProto::number;
  made.f = static_cast<float>(value);
  return made;
}
AttributeProto make_attribute(const std::string& name, const char* value) {
  AttributeProto made;
  made.name = name;
  made.type = AttributeProto::text;
  made.s = value;
  return made;
}
AttributeProto make_attribute(const std::string& name, const std::vector<std::int64_t>& values) {
  AttributeProto made;
  made.name = name;
  made.type = AttributeProto::integers;
  made.ints = values;
  return made;
}

Writer::Writer(const graph::Structure& structure) : structure_(structure) {
  graph_.name = structure.name;
  for (const graph::Value& value : structure.values) {
    taken_.insert(value.name);
    if (value.tensor.defined())
      graph_.initializers.push_back(to_proto(value.tensor, value.name, storage_.emplace_back()));
  }
}

std::string Writer::fresh() {
  std::string name;
  do name = message("t", made_++);
  while (!taken_.insert(name).second);
  return name;
}

void Writer::add(const std::string& type, const Names& inputs, const Names& outputs,
                 std::vector<AttributeProto> attributes) {
  NodeProto made;
  made.type = type;
  made.name = outputs[0];
  made.inputs = inputs;
  made.outputs = outputs;
  made.attributes = std::move(attributes);
  graph_.nodes.push_back(std::move(made));
}
std::string Writer::node(const std::string& type, const Names& inputs, std::vector<AttributeProto> attributes) {
  std::string name = fresh();
  add(type, inputs, {name}, std::move(attributes));
  return name;
}
std::string Writer::constant(const Tensor& tensor) {
  std::string name = fresh();
  graph_.initializers.push_back(to_proto(tensor, name, storage_.emplace_back()));
  return name;
}
std::string Writer::number(double value, DType dtype) { return constant(full({}, value, dtype)); }
std::string Writer::integers(const std::vector<std::int64_t>& values) {
  return constant(tensor(values, {static_cast<std::int64_t>(values.size())}));
}

std::string Writer::sizes(const std::vector<graph::Linear>& each) {
  if (std::ranges::all_of(each, [](const graph::Linear& size) { return size.each == 0; })) {
    std::vector<std::int64_t> values;
    for (const graph::Linear& size : each) values.push_back(size.fixed);
    return integers(values);
  }
  if (batch_.empty()) {
    const int first = structure_.inputs.at(0);
    const std::vector<graph::Linear>& shape = structure_.values[first].shape;
    if (shape.empty() || shape[0].each != 1 || shape[0].fixed != 0)
      throw Refusal("follows a batch that is not the first input's", "");
    batch_ = node("Shape", {structure_.values[first].name},
                  {make_attribute("start", std::int64_t{0}), make_attribute("end", std::int64_t{1})});
  }
  Names parts;
  for (const graph::Linear& size : each) {
    if (size.each == 0) {
      parts.push_back(integers({size.fixed}));
      continue;
    }
    std::string name = batch_;
    if (size.each != 1) name = node("Mul", {name, integers({size.each})});
    if (size.fixed != 0) name = node("Add", {name, integers({size.fixed})});
    parts.push_back(name);
  }
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {make_attribute("axis", std::int64_t{0})});
}

ModelProto Writer::finish() {
  ModelProto model;
  model.ir_version = written_ir;
  model.producer = "tern";
  model.opsets[""] = written_opset;
  for (const int id : structure_.inputs) graph_.inputs.push_back(described(structure_.values[id]));
  std::set<int> seen;
  for (const int id : structure_.results) {
    const graph::Value& value = structure_.values[id];
    ValueProto output = described(value);
    // What is no node's result, or is one twice, becomes one by itself.
    if (value.kind != graph::Kind::result || !seen.insert(id).second) output.name = node("Identity", {value.name});
    graph_.outputs.push_back(std::move(output));
  }
  model.graph = graph_;
  // The raw data lies here: the bytes are made before the writer ends.
  return model;
}

std::int64_t Step::size(std::size_t i, std::int64_t dim) const {
  const auto& shape = value(i).shape;
  const graph::Linear& size = shape.at(static_cast<std::size_t>(dim < 0 ? dim + std::ssize(shape) : dim));
  if (size.each != 0) throw Refusal("needs a size that follows the batch", "trace it at a fixed batch");
  return size.fixed;
}

void Step::fixed() const {
  if (!node.by_batch.empty())
    throw Refusal(message("has attributes that follow the batch (", node.by_batch, ")"), "trace it at a fixed batch");
}

std::vector<graph::Linear> Step::joined(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b,
                                        std::int64_t n) {
  std::vector<graph::Linear> result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t each = b.at(i) - a[i];
    result.push_back({a[i] - each * n, each});
  }
  return result;
}

std::string write(const graph::Graph& graph, const Metadata& metadata) {
  const graph::Structure& structure = graph.structure();
  Writer out(structure);
  std::vector<Lack> lacks;
  for (const graph::Node& node : structure.nodes) {
    Step step{out, node, {}, {}};
    for (const int id : node.inputs) step.inputs.push_back(id < 0 ? "" : structure.values[id].name);
    for (const int id : node.results) step.results.push_back(structure.values[id].name);
    std::string what, advice;
    try {
      const auto found = emit_table().find(node.op->name());
      if (found == emit_table().end())
        what = "is no operator that can be written";
      else
        found->second(step);
    } catch (const Refusal& refusal) {
      what = refusal.what();
      advice = refusal.advice();
    }
    if (what.empty()) continue;
    const auto known =
        std::ranges::find_if(lacks, [&](const Lack& lack) { return lack.op == node.op->name() && lack.what == what; });
    if (known != lacks.end())
      ++known->count;
    else
      lacks.push_back({step.results.empty() ? "" : step.results[0], node.op->name(), what, advice});
  }
  if (!lacks.empty()) throw OnnxError(structure.name, lacks);
  ModelProto model = out.finish();
  model.metadata = metadata;
  return to_bytes(model);
}

void save(const graph::Graph& graph, const std::string& file, const Metadata& metadata) {
  const std::string bytes = write(graph, metadata);
  io::AtomicFile target(file);
  target.write(std::as_bytes(std::span(bytes.data(), bytes.size())));
  target.commit();
}

}  // namespace tern::onnx
