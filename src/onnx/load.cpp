#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <set>

#include "onnx/importer.hpp"
#include "onnx/int8.hpp"
#include "onnx/narrow.hpp"
#include "onnx/patterns.hpp"
#include "onnx/table.hpp"
#include "tern/graph/passes.hpp"
#include "tern/graph/trace.hpp"
#include "tern/io/file.hpp"
#include "tern/modes/device.hpp"

namespace tern::onnx {

namespace {

constexpr std::int64_t newest_opset = 28, oldest_ir = 3;
constexpr std::int64_t example_batch = 2;

std::string list_of(const std::string& model, const std::vector<Lack>& lacks) {
  std::string text =
      message("ONNX: ", model, ": Tern lacks ", lacks.size(), lacks.size() == 1 ? " thing:" : " things:");
  for (const Lack& lack : lacks) {
    text += "\n- ";
    if (lack.op.empty())
      text += "the model ";
    else
      text += message(lack.op, " of '", lack.node, "'", lack.count > 1 ? message(" and ", lack.count - 1, " more") : "",
                      ' ');
    text += lack.what;
    if (!lack.inputs.empty()) text += message(" (inputs: ", lack.inputs, ')');
    if (!lack.advice.empty()) text += ": " + lack.advice;
  }
  return text;
}

/// Names in a graph's text end at these.
std::string plain_name(const std::string& name) {
  std::string plain = name;
  for (char& c : plain)
    if (static_cast<unsigned char>(c) <= ' ' || std::string_view(",()=#:").find(c) != std::string_view::npos) c = '_';
  return plain.empty() || plain == "-" ? "_" : plain;
}

/// Names of parameters are paths of modules: no part is empty, and none is a part of another's path.
std::string plain_path(const std::string& name, const std::set<std::string>& all) {
  std::string plain = plain_name(name);
  bool fits = !plain.starts_with('.') && !plain.ends_with('.') && plain.find("..") == std::string::npos;
  for (std::size_t dot = plain.find('.'); fits && dot != std::string::npos; dot = plain.find('.', dot + 1))
    fits = !all.contains(plain.substr(0, dot));
  if (!fits) std::ranges::replace(plain, '.', '_');
  return plain;
}

/// Inputs of these operators do not take part in training.
bool untrained(const NodeProto& node, std::size_t input) {
  if (node.type == "BatchNormalization") return input >= 3;
  if (node.type == "QuantizeLinear" || node.type == "DequantizeLinear") return input >= 1;
  if (node.type == "QLinearConv" || node.type == "QLinearMatMul" || node.domain == "tern.int8") return true;
  return node.type == "Resize" || node.type == "Upsample" ? input >= 1 : false;
}

}  // namespace

OnnxError::OnnxError(const std::string& model, std::vector<Lack> lacks)
    : Error(list_of(model, lacks)), lacks_(std::move(lacks)) {}

Importer::Importer(ModelProto model, const LoadOptions& options, std::string name)
    : model_(std::move(model)), options_(options), name_(std::move(name)) {
  if (options_.int8) join_quantized(model_.graph);
}

void Importer::read_initializers() {
  std::set<std::string> fixed;
  for (const NodeProto& node : model_.graph.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (untrained(node, i)) fixed.insert(node.inputs[i]);
  for (const std::string& name : model_.graph.sparse)
    lacks_.push_back({"", "", message("has a sparse initializer '", name, "'"), "make it dense"});
  for (const TensorProto& proto : model_.graph.initializers) {
    const bool carried = narrow_of(proto.type) != nullptr;
    if (!carried && !dtype_of_element(proto.type)) {
      // It may be of no consequence: only its readers are refused.
      initializers_[proto.name] = {.missing = true};
      lack(proto.name, "an initializer", message("has elements of ", name_of_element(proto.type)),
           "no tensor has such elements");
      continue;
    }
    Item item{.tensor = to_tensor(proto, model_.folder), .element = carried ? proto.type : 0};
    item.parameter = !carried && options_.trainable && is_floating(item.tensor.dtype()) && item.tensor.rank() > 0 &&
                     !fixed.contains(proto.name);
    item.known = !item.parameter;
    if (item.parameter) item.tensor.set_requires_grad();
    initializers_[proto.name] = std::move(item);
  }
}

void Importer::read_inputs() {
  std::set<std::string> batches;
  for (const ValueProto& value : model_.graph.inputs) {
    if (initializers_.contains(value.name)) continue;  // a default, as old files have them
    if (const auto constant = options_.constants.find(value.name); constant != options_.constants.end()) {
      initializers_[value.name] = {.tensor = constant->second.detach(),
                                   .element = narrow_of(value.element) != nullptr ? value.element : 0,
                                   .known = true};
      continue;
    }
    const auto needs = [&](const std::string& what, const std::string& advice) {
      lack(value.name, "an input", what, advice);
    };
    const std::optional<DType> dtype = holding_dtype(value.element);
    if (!value.other.empty() || !dtype) {
      needs(message("is ", value.other.empty() ? "of " + name_of_element(value.element) : "a " + value.other),
            "graphs take tensors");
      continue;
    }
    Input input{.name = value.name, .dtype = *dtype, .element = narrow_of(value.element) ? value.element : 0};
    if (const auto given = options_.shapes.find(value.name); given != options_.shapes.end()) {
      input.shape = given->second;
      if (!input.shape.empty() && input.shape[0] == -1) batches.insert("");
    } else if (!value.shape) {
      needs("has no shape", "give it in LoadOptions::shapes");
    } else {
      for (std::size_t d = 0; d < value.shape->size(); ++d) {
        const DimensionProto& size = (*value.shape)[d];
        const auto named = options_.sizes.find(size.name);
        if (size.value && *size.value >= 0) {
          input.shape.push_back(*size.value);
        } else if (!size.name.empty() && named != options_.sizes.end()) {
          input.shape.push_back(named->second);
        } else if (d == 0) {
          input.shape.push_back(-1);
          batches.insert(size.name);
        } else {
          needs(message("has no size in dimension ", d, size.name.empty() ? "" : " ('" + size.name + "')"),
                size.name.empty() ? "give its shape in LoadOptions::shapes" : "give it in LoadOptions::sizes");
        }
      }
    }
    inputs_.push_back(std::move(input));
  }
  if (batches.size() > 1)
    lack("", "", message("has inputs with first dimensions of ", batches.size(), " names"),
         "give all but the batch in LoadOptions::sizes");
  batch_ = !batches.empty();
}

graph::Graph Importer::build() {
  const auto opset = model_.opsets.find("");
  if (model_.ir_version < oldest_ir)
    lack("", "", message("has version ", model_.ir_version, " of the file format"), "write it anew with a newer onnx");
  if (opset != model_.opsets.end() && opset->second > newest_opset)
    lack("", "", message("has operator set ", opset->second, ", newer than ", newest_opset),
         "convert it to that operator set");
  for (const std::string& what : ambiguous_names(model_)) lack("", "", what, "repair the file");
  // Models without an operator set are older than all.
  if (!lacks_.empty()) throw OnnxError(name_, lacks_);
  read_initializers();
  std::vector<Lack> before = std::move(lacks_);
  lacks_.clear();
  read_inputs();
  if (!lacks_.empty()) throw OnnxError(name_, lacks_);

  // Operators run only where one needs the elements of a result. Integers are often indices or divisors: 1 is both,
  // except in tables of one row.
  const auto traced = [&](int fill) {
    std::vector<Tensor> examples;
    std::vector<std::string> names;
    for (const Input& input : inputs_) {
      Shape shape;
      for (const std::int64_t size : input.shape) shape.push_back(size == -1 ? example_batch : size);
      if (element_count(shape) > options_.largest_tensor)
        throw OnnxError(name_, {{input.name, "an input", message("has shape ", shape),
                                 "raise LoadOptions::largest_tensor if the file can be trusted"}});
      examples.push_back(full(shape, fill, input.dtype));
      names.push_back(plain_name(input.name));
    }
    Device quiet(*current_scope().mode, {.transfers = Transfers::allow, .numerics = Numerics::trust, .verify = false});
    bool first = true;
    const auto call = [&](const std::vector<Tensor>& x) {
      std::vector<Tensor> results = run(x, first);
      first = false;
      return results;
    };
    graph::Graph graph = graph::trace(call, examples, {.batch = batch_, .inputs = names});
    quiet.synchronize();  // throws what an index out of range left behind on a device
    return graph;
  };
  std::optional<graph::Graph> graph;
  try {
    try {
      graph = traced(1);
    } catch (const Error&) {
      if (std::ranges::all_of(inputs_, [](const Input& each) { return is_floating(each.dtype); })) throw;
      const std::exception_ptr error = std::current_exception();
      try {
        graph = traced(0);
      } catch (const Error&) {
        std::rethrow_exception(error);
      }
    }
  } catch (const OnnxError& error) {
    std::vector<Lack> all = error.lacks();
    all.insert(all.begin(), before.begin(), before.end());
    throw OnnxError(name_, all);
  }
  return finished(*graph);
}

graph::Graph Importer::finished(const graph::Graph& traced) const {
  graph::Structure structure = traced.structure();
  if (!model_.graph.name.empty()) structure.name = plain_name(model_.graph.name);
  std::map<const Storage*, std::string> names;
  std::set<std::string> all;
  for (const auto& [name, item] : initializers_)
    if (item.tensor.defined()) {
      names.emplace(item.tensor.shared_storage().get(), name);
      all.insert(plain_name(name));
    }
  std::set<std::string> taken;
  const auto name = [&](graph::Value& value, const std::string& wanted) {
    value.name = wanted;
    for (int k = 2; !taken.insert(value.name).second; ++k) value.name = message(wanted, "_", k);
  };
  for (const int id : structure.inputs) taken.insert(structure.values[id].name);
  // An output that is an input, or another output, has a name of its own as well.
  for (std::size_t i = 0; i < structure.results.size(); ++i)
    name(structure.values[structure.results[i]], plain_name(model_.graph.outputs[i].name));
  const std::set<int> results(structure.results.begin(), structure.results.end());
  for (std::size_t id = 0; id < structure.values.size(); ++id) {
    graph::Value& value = structure.values[id];
    if (value.kind == graph::Kind::input || results.contains(static_cast<int>(id))) continue;
    if (value.tensor.defined())
      if (const auto found = names.find(value.tensor.shared_storage().get()); found != names.end())
        value.name = plain_path(found->second, all);
    name(value, std::string(value.name));
  }
  join_patterns(structure);
  graph::remove_dead(structure);
  return graph::Graph(std::move(structure));
}

namespace {

std::shared_ptr<const std::string> content_of(const std::string& name, std::uint64_t most) {
  const io::InputFile file(name);
  expects<FileError>(file.size() <= most, name, ": ", file.size(),
                     " bytes; raise LoadOptions::largest_file if the file can be trusted");
  std::string bytes(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
  return std::make_shared<const std::string>(std::move(bytes));
}

}  // namespace

graph::Graph load(const std::string& file, const LoadOptions& options) {
  ModelProto model = parse_model(content_of(file, options.largest_file), file);
  model.folder = std::filesystem::path(file).parent_path().string();
  if (model.folder.empty()) model.folder = ".";
  return Importer(std::move(model), options, file).build();
}

Metadata metadata(const std::string& file, const LoadOptions& options) {
  return parse_model(content_of(file, options.largest_file), file).metadata;
}

graph::Graph read(std::span<const std::byte> bytes, const LoadOptions& options) {
  auto content = std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return Importer(parse_model(std::move(content), "a model in memory"), options, "a model in memory").build();
}

}  // namespace tern::onnx
