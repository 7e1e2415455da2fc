#pragma once
// ONNX files where a model is expected.

#include "model.hpp"

namespace tern::tool {

/// The graph of an ONNX file, with any inputs and results. Throws FileError for a damaged file, for what Tern lacks,
/// and where this build cannot read ONNX.
graph::Graph load_onnx_graph(const std::string& file);

/// The same as a model: it takes one input of examples (images [channels, height, width] or rows of numbers) and gives
/// one row of scores for each. The file's metadata may hold a blueprint (of save_onnx), or else "tern.classes",
/// "tern.mean" and "tern.deviation" (lists with commas); without them the classes are numbers, and pixels lie in [0,
/// 1]. Throws FileError.
Model load_onnx(const std::string& file);

/// Writes a model as an ONNX file, with its blueprint. Throws FileError.
void save_onnx(const std::string& file, const Blueprint& blueprint, const graph::Graph& graph);
/// The same of any graph.
void save_onnx(const std::string& file, const graph::Graph& graph);

/// The graph with another last layer, for another number of classes, with new weights. Throws UsageError where the
/// last operator is no linear layer.
graph::Graph with_head(const graph::Graph& graph, std::int64_t classes, std::uint64_t seed, const std::string& file);

}  // namespace tern::tool
