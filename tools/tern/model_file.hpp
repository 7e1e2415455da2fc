#pragma once

#include <memory>
#include <optional>
#include <string>

#include "model.hpp"
#include "tern/graph/graph.hpp"
#include "tern/io/checkpoint.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/nn/module.hpp"

namespace tern::tool {

/// Writes weights under torch's names and the blueprint as metadata; the same content gives the same bytes.
void save_model(const std::string& file, const Blueprint& blueprint, const nn::State& weights);
/// The same of a graph, which such a model runs in place of the blueprint's network.
void save_model(const std::string& file, const Blueprint& blueprint, const graph::Graph& graph);

/// Throws FileError if a model could not be written to `file`, or if the existing file is not a model and would be
/// lost: before the training, not after it. Does nothing if `file` is empty.
void check_model_place(const std::string& file);

/// Reads a model file, an ONNX file, a checkpoint, or from a run folder its model, else its newest checkpoint. The file
/// is untrusted: the network is built only after the file is known to hold its parameters. Throws FileError.
Model load_model(const std::string& path);

/// The same for a file's content; `file` is its name in messages.
Model model_from(io::Safetensors content, const std::string& file);

/// A network as a graph: that of a model, or of an ONNX file with any inputs and results. Throws FileError.
graph::Graph load_graph(const std::string& path);
graph::Graph graph_of(const Model& model);

/// Tensors to start a training with.
struct Weights {
  nn::State tensors = {};
  std::optional<Blueprint> blueprint = {};  // if this program wrote the file
  std::string file = {};
};
/// Reads whatever load_model reads, and any other safetensors or .npz file. Throws FileError.
Weights load_weights(const std::string& path);

/// The blueprint in the metadata of a model or checkpoint.
Blueprint blueprint_in(const std::map<std::string, std::string>& metadata, const char* key, const std::string& file);

}  // namespace tern::tool
