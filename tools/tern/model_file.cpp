#include "model_file.hpp"

#include <array>
#include <filesystem>
#include <utility>

#include "blueprint_file.hpp"
#include "errors.hpp"
#include "nets.hpp"
#include "onnx_model.hpp"
#include "run_folder.hpp"
#include "tern/graph/trace.hpp"
#include "tern/io/file.hpp"
#include "tern/io/npy.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/tensor/create.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

namespace fs = std::filesystem;

constexpr const char* key = "tern.model";

Model model_from(const Blueprint& blueprint, const nn::State& weights, const std::string& file) {
  expects<FileError>(blueprint.net != "onnx", file,
                     ": weights of an imported network without its graph; name the model of the finished training");
  std::int64_t held = 0;
  for (const auto& [name, tensor] : weights) held += tensor.numel();
  const std::int64_t wanted = parameter_count(blueprint);
  expects<FileError>(held >= wanted, file, ": found ", held, " weights, expected the ", wanted, " of ",
                     describe_net(blueprint));
  Model model{blueprint, build_net(blueprint, 0), file};
  try {
    model.net->load_state(weights);
  } catch (const Error& error) {
    throw FileError(message(file, ": the weights do not fit the description: ", error.what()));
  }
  model.net->eval();
  return model;
}

Model from_checkpoint(const io::Checkpoint& checkpoint, const std::string& file) {
  return model_from(blueprint_in(checkpoint.metadata, "model", file), checkpoint.part("model."), file);
}

}  // namespace

Blueprint blueprint_in(const std::map<std::string, std::string>& metadata, const char* name, const std::string& file) {
  const auto found = metadata.find(name);
  expects<FileError>(found != metadata.end(), file, ": not a model of this program: the metadata '", name,
                     "' is missing");
  return blueprint_from(parse_json(found->second, file), file);
}

void save_model(const std::string& file, const Blueprint& blueprint, const nn::State& weights) {
  io::save_safetensors(file, weights, {{key, to_json(blueprint).dump()}});
}

void save_model(const std::string& file, const Blueprint& blueprint, const graph::Graph& graph) {
  graph.save(file, {{key, to_json(blueprint).dump()}});
}

void check_model_place(const std::string& file) {
  if (file.empty()) return;
  std::error_code missing;
  if (fs::exists(file, missing)) {
    const io::InputFile input(file);
    // The length of a JSON header, and its first character.
    std::array<std::byte, 9> head{};
    input.read(
        0, std::span(head).first(input.size() < head.size() ? static_cast<std::size_t>(input.size()) : head.size()));
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = (length << 8) | std::to_integer<std::uint64_t>(head[i]);
    expects<FileError>(input.size() == 0 || (length <= input.size() && head[8] == std::byte{'{'}), file,
                       ": is no model and would be overwritten by one; choose another --model");
  }
  io::AtomicFile writable(file);  // dropped again
}

namespace {

/// The sources of a run's model.
struct Content {
  std::string file;
  std::optional<io::Checkpoint> checkpoint = {};  // otherwise the file is read
};

Content content_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {path};
  const std::string model = RunFolder::model_in(path);
  if (fs::exists(model, ignored)) return {model};
  auto newest = io::resume_checkpoint(RunFolder::checkpoints_in(path));
  expects<FileError>(newest.has_value(), path, ": found neither a model nor a checkpoint, expected a run of tern train",
                     words_of_runs_in(path));
  return {newest->file, std::move(newest->checkpoint)};
}

Weights weights_of(const io::Checkpoint& checkpoint, const std::string& file) {
  return {checkpoint.part("model."), blueprint_in(checkpoint.metadata, "model", file), file};
}

}  // namespace

Model load_model(const std::string& path) {
  if (is_onnx(path)) return load_onnx(path);
  const Content content = content_of(path);
  if (content.checkpoint) return from_checkpoint(*content.checkpoint, content.file);
  return model_from(io::load_safetensors(content.file), content.file);
}

Weights load_weights(const std::string& path) {
  if (is_onnx(path)) {
    const Model model = load_onnx(path);
    return {model.net->state(), model.blueprint, path};
  }
  const Content content = content_of(path);
  if (content.checkpoint) return weights_of(*content.checkpoint, content.file);
  if (path.ends_with(".npz")) return {.tensors = io::load_npz(path), .file = path};
  io::Safetensors read = io::load_safetensors(content.file);
  if (read.metadata.contains("tern.format"))
    return weights_of(io::checkpoint_from(std::move(read), content.file), content.file);
  Weights weights{.tensors = std::move(read.tensors), .file = content.file};
  if (read.metadata.contains(key)) weights.blueprint = blueprint_in(read.metadata, key, content.file);
  return weights;
}

graph::Graph load_graph(const std::string& path) {
  if (is_onnx(path)) return load_onnx_graph(path);
  const Content content = content_of(path);
  if (content.checkpoint) return graph_of(from_checkpoint(*content.checkpoint, content.file));
  io::Safetensors read = io::load_safetensors(content.file);
  // Programs of the library have no blueprint.
  if (read.metadata.contains("tern.graph") && !read.metadata.contains(key))
    return graph::Graph::load(read, content.file);
  return graph_of(model_from(std::move(read), content.file));
}

graph::Graph graph_of(const Model& model) {
  if (const auto* graph = dynamic_cast<const graph::Graph*>(model.net.get())) return *graph;
  Shape shape{1};
  for (const std::int64_t size : model.blueprint.input) shape.push_back(size);
  return graph::trace(*model.net, zeros(shape));
}

Model model_from(io::Safetensors content, const std::string& file) {
  if (content.metadata.contains("tern.format"))
    return from_checkpoint(io::checkpoint_from(std::move(content), file), file);
  const Blueprint blueprint = blueprint_in(content.metadata, key, file);
  if (!content.metadata.contains("tern.graph")) return model_from(blueprint, content.tensors, file);
  const graph::Graph graph = graph::Graph::load(content, file);
  check_fits(graph, blueprint, file);
  expects<FileError>(graph.structure().batch > 0, file, ": the graph does not take examples of any batch");
  return {blueprint, std::make_shared<graph::Graph>(graph), file};
}

}  // namespace tern::tool
