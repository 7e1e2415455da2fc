#pragma once
// Networks from ONNX files and back. A library of its own: tern::onnx, built where protozero is.

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tern/graph/graph.hpp"
#include "tern/onnx/call.hpp"

namespace tern::onnx {

/// Something in a model that Tern lacks, or that a caller must say.
struct Lack {
  std::string node;         ///< the first node; empty: the model as a whole
  std::string op;           ///< its operator, with the domain: "com.x.Swish"
  std::string what;         ///< such as "is unknown"
  std::string advice;       ///< what to do
  std::int64_t count = 1;   ///< how many nodes
  std::string inputs = {};  ///< of the first node, with dtype and shape: "'x' float32 [2,3]"
};

/// A model that cannot become a graph, or a graph that cannot become a model. It names everything that is lacking.
class OnnxError : public Error {
 public:
  OnnxError(const std::string& model, std::vector<Lack> lacks);
  const std::vector<Lack>& lacks() const { return lacks_; }

 private:
  std::vector<Lack> lacks_;
};

/// An operator of your own: results from what a node has. It calls public operators.
using Operator = std::function<std::vector<Tensor>(const Call& call)>;

/// Texts by key.
using Metadata = std::map<std::string, std::string>;

struct LoadOptions {
  /// Operators by type, with the domain unless it is ONNX's: "com.x.Swish". They come before those of the library.
  std::map<std::string, Operator> operators = {};
  /// Sizes of symbolic dimensions by name: "sequence". The first dimension of all inputs is the batch and needs none.
  std::map<std::string, std::int64_t> sizes = {};
  /// Shapes of inputs, in place of those of the file. A size of -1 is the batch.
  std::map<std::string, std::vector<std::int64_t>> shapes = {};
  /// Inputs whose values are known now: they become constants and are no inputs of the graph. Shapes, axes and other
  /// values that decide about sizes must be known.
  std::map<std::string, Tensor> constants = {};
  /// Whether initialisers with a floating dtype and at least one dimension are parameters, which take gradients; else
  /// they are constants.
  bool trainable = true;
  /// Whether layers between QuantizeLinear and DequantizeLinear compute in 8 bits (docs/onnx.md), without gradients;
  /// else all is float32.
  bool int8 = true;
  /// A tensor of more elements is refused: files are not trusted.
  std::int64_t largest_tensor = std::int64_t{1} << 31;
  /// So is a model in which more nodes run, counted in every iteration of a loop,
  std::int64_t most_nodes = 1'000'000;
  /// and so are files, of the model or of external data, of more bytes.
  std::uint64_t largest_file = std::uint64_t{1} << 36;
};

/// Reads a model of operator set 7 or newer. The graph has the model's inputs and outputs under their names, and its
/// initialisers as parameters under theirs. The model runs once or twice meanwhile, in the mode of the scope. Where the
/// first dimension of all inputs is symbolic the graph runs at any batch, if its sizes follow it; otherwise, and where
/// they do not, at the sizes of the file (at a batch of 2). Throws FileError for a damaged file, OnnxError for
/// everything that is lacking, at once.
graph::Graph load(const std::string& file, const LoadOptions& options = {});
/// The same from memory; external data is an error.
graph::Graph read(std::span<const std::byte> bytes, const LoadOptions& options = {});

/// What a model says of itself besides its graph: metadata_props. Throws FileError.
Metadata metadata(const std::string& file, const LoadOptions& options = {});

/// Writes a graph as a model of ONNX's own operators, operator set 22: parameters, buffers and constants are
/// initialisers, the batch is the symbolic dimension "N". Throws OnnxError that lists the operators which cannot be
/// written, and FileError.
void save(const graph::Graph& graph, const std::string& file, const Metadata& metadata = {});
/// The bytes of the same file.
std::string write(const graph::Graph& graph, const Metadata& metadata = {});

/// The types of all operators that load() knows, in alphabetical order.
std::vector<std::string> operator_names();

}  // namespace tern::onnx
