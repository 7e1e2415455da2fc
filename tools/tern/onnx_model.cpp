#include "onnx_model.hpp"

#include <cmath>

#include "blueprint_file.hpp"
#include "errors.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/shape.hpp"
#include "tern/tensor/create.hpp"

#ifdef TERN_TOOL_ONNX
#include "tern/onnx/onnx.hpp"
#endif

namespace tern::tool {

#ifdef TERN_TOOL_ONNX

namespace {

constexpr const char* key = "tern.model";

/// What is wrong with a file is a FileError, whatever the library calls it.
template <class Read>
auto of_file(const Read& read) -> decltype(read()) {
  try {
    return read();
  } catch (const onnx::OnnxError& error) {
    throw FileError(error.what());
  }
}

/// Runs examples one by one through a graph that takes no other batch.
class OneByOne final : public nn::Module {
 public:
  explicit OneByOne(graph::Graph graph) : graph_(module("graph", std::move(graph))) {}
  Tensor forward(const Tensor& x) const override {
    std::vector<Tensor> results;
    for (std::int64_t i = 0; i < x.size(0); ++i) results.push_back(graph_(x.slice(0, i, i + 1)));
    return operators::cat(results);
  }
  std::string describe() const override { return "OneByOne"; }

 private:
  graph::Graph graph_;
};

/// Whether two examples at once have the results of one after the other. A mean over the batch of a file for one
/// example, such as MeanVarianceNormalization's, has the right shape for two and mixes them.
bool keeps_examples_apart(const graph::Graph& free, const graph::Graph& one) {
  const graph::Value& input = one.structure().values[one.structure().inputs[0]];
  Generator generator(1);
  Shape shape = input.shape_at(1);
  shape[0] = 2;
  const bool numbers = is_floating(input.dtype);
  const Tensor x = numbers ? randn(shape, generator).to(input.dtype) : randint(0, 2, shape, generator).to(input.dtype);
  const NoGrad no_grad;
  graph::Graph together = free, apart = one;
  together.eval();
  apart.eval();
  const std::vector<Tensor> both = together.run({x});
  for (std::int64_t i = 0; i < 2; ++i) {
    const std::vector<Tensor> own = apart.run({x.slice(0, i, i + 1)});
    for (std::size_t j = 0; j < own.size(); ++j)
      if (!operators::allclose(both[j].slice(0, i, i + 1).to(DType::float32), own[j].to(DType::float32), 1e-2, 1e-4,
                               true))
        return false;
  }
  return true;
}

/// With a free batch, where the file's batch of one can become one.
graph::Graph with_batch(const std::string& file, const graph::Graph& graph) {
  const graph::Structure& own = graph.structure();
  if (own.batch > 0 || own.inputs.size() != 1) return graph;
  const graph::Value& input = own.values[own.inputs[0]];
  std::vector<std::int64_t> shape;
  for (const graph::Linear& size : input.shape) shape.push_back(size.fixed);
  if (shape.empty() || shape[0] != 1) return graph;
  shape[0] = -1;
  try {
    graph::Graph free = onnx::load(file, {.shapes = {{input.name, shape}}});
    return free.structure().batch > 0 && keeps_examples_apart(free, graph) ? free : graph;
  } catch (const Error&) {
    return graph;
  }
}

std::vector<std::string> listed(const onnx::Metadata& metadata, const char* name) {
  const auto found = metadata.find(name);
  return found == metadata.end() ? std::vector<std::string>() : split_list(found->second);
}

std::vector<double> numbers(const onnx::Metadata& metadata, const char* name, std::size_t count, double absent,
                            const std::string& file) {
  std::vector<double> values;
  for (const std::string& text : listed(metadata, name)) {
    try {
      values.push_back(parse_number(name, text));
    } catch (const UsageError& error) {
      throw FileError(message(file, ": ", error.what()));
    }
  }
  if (values.empty()) values.assign(count, absent);
  expects<FileError>(values.size() == count, file, ": '", name, "' of the metadata has ", values.size(),
                     " numbers, expected ", count);
  return values;
}

Blueprint described(const graph::Graph& graph, const onnx::Metadata& metadata, const std::string& file) {
  const graph::Structure& own = graph.structure();
  expects<FileError>(own.inputs.size() == 1 && own.results.size() == 1, file, ": takes ", own.inputs.size(),
                     " inputs and gives ", own.results.size(),
                     " results; a model has one of each (tern graph and tern info take any)");
  const graph::Value &input = own.values[own.inputs[0]], &result = own.values[own.results[0]];
  const std::int64_t one = own.batch > 0 ? own.batch : 1;
  const Shape in = input.shape_at(one), out = result.shape_at(one);
  expects<FileError>(input.dtype == DType::float32 && (in.rank() == 2 || in.rank() == 4) && in[0] == one, file,
                     ": the input '", input.name, "' is ", input.dtype, " ", in,
                     ", expected float32 images [batch, channels, height, width] or rows [batch, numbers]");
  expects<FileError>(out.rank() == 2 && out[0] == one && out[1] >= 2, file, ": the result '", result.name,
                     "' has shape ", out, ", expected a score for each of two or more classes: [batch, classes]");
  Blueprint made;
  made.net = "onnx";
  made.source = file;
  made.activation = "relu";
  made.cost = "cross-entropy";
  made.input = in.rank() == 4 ? Shape{in[1], in[2], in[3]} : Shape{in[1]};
  made.table = in.rank() == 2;
  made.classes = listed(metadata, "tern.classes");
  if (made.classes.empty())
    for (std::int64_t i = 0; i < out[1]; ++i) made.classes.push_back(std::to_string(i));
  expects<FileError>(std::ssize(made.classes) == out[1], file, ": 'tern.classes' of the metadata has ",
                     made.classes.size(), " names, expected ", out[1]);
  const auto channels = static_cast<std::size_t>(made.input[0]);
  const std::vector<double> mean = numbers(metadata, "tern.mean", channels, 0, file),
                            deviation = numbers(metadata, "tern.deviation", channels, 1, file);
  for (const double each : deviation)
    expects<FileError>(each > 0, file, ": 'tern.deviation' of the metadata has ", each, ", expected numbers above 0");
  if (made.table)
    for (std::size_t i = 0; i < channels; ++i)
      made.encoding.columns.push_back({std::to_string(i + 1), mean[i], deviation[i], {}, {}, false});
  else
    made.scaling = {mean, deviation};
  return made;
}

}  // namespace

graph::Graph load_onnx_graph(const std::string& file) {
  return of_file([&] { return with_batch(file, onnx::load(file)); });
}

Model load_onnx(const std::string& file) {
  return of_file([&]() -> Model {
    const onnx::Metadata metadata = onnx::metadata(file);
    graph::Graph graph = with_batch(file, onnx::load(file));
    const auto own = metadata.find(key);
    Blueprint blueprint =
        own == metadata.end() ? described(graph, metadata, file) : blueprint_from(parse_json(own->second, file), file);
    check_fits(graph, blueprint, file);
    graph.eval();
    if (graph.structure().batch > 0) return {blueprint, std::make_shared<graph::Graph>(std::move(graph)), file};
    return {blueprint, std::make_shared<OneByOne>(std::move(graph)), file};
  });
}

void save_onnx(const std::string& file, const Blueprint& blueprint, const graph::Graph& graph) {
  of_file([&] { onnx::save(graph, file, {{key, to_json(blueprint).dump()}}); });
}
void save_onnx(const std::string& file, const graph::Graph& graph) {
  of_file([&] { onnx::save(graph, file); });
}

#else

namespace {
[[noreturn]] void absent(const std::string& file) {
  throw FileError(file + ": this tern was built without ONNX (apt install libprotozero-dev, then build it again)");
}
}  // namespace

graph::Graph load_onnx_graph(const std::string& file) { absent(file); }
Model load_onnx(const std::string& file) { absent(file); }
void save_onnx(const std::string& file, const Blueprint&, const graph::Graph&) { absent(file); }
void save_onnx(const std::string& file, const graph::Graph&) { absent(file); }

#endif

graph::Graph with_head(const graph::Graph& graph, std::int64_t classes, std::uint64_t seed, const std::string& file) {
  graph::Structure structure = graph.structure();
  const int result = structure.results.at(0);
  graph::Node* last = nullptr;
  for (graph::Node& node : structure.nodes)
    if (node.results.size() == 1 && node.results[0] == result) last = &node;
  const bool linear = last != nullptr && last->op->name() == "linear" && last->by_batch.empty() &&
                      structure.values[last->inputs[1]].kind == graph::Kind::parameter;
  expects<UsageError>(linear, "--init: ", file, " gives ", structure.values[result].shape.back().fixed, " scores by '",
                      last == nullptr ? "nothing" : last->op->name(), "', but the data has ", classes,
                      " classes, and only a last linear layer can be replaced");
  const Tensor weight = structure.values[last->inputs[1]].tensor;
  Generator generator(seed);
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  const auto replace = [&](int id, const Shape& shape) {
    graph::Value& value = structure.values[id];
    value.tensor = rand(shape, generator, -bound, bound);
    value.tensor.set_requires_grad();
    value.shape.clear();
    for (const std::int64_t size : shape) value.shape.push_back({size, 0});
  };
  replace(last->inputs[1], {classes, weight.size(1)});
  if (last->inputs.size() > 2 && last->inputs[2] >= 0) replace(last->inputs[2], {classes});
  structure.values[result].shape.back() = {classes, 0};
  return graph::Graph(std::move(structure));
}

}  // namespace tern::tool
