#pragma once
// A program as data: values, and the operators between them. graph/trace.hpp makes one from a module or a function,
// graph/passes.hpp rewrites it, graph/program.hpp runs it without dispatch.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tern/nn/module.hpp"
#include "tern/operators/op.hpp"

namespace tern::io {
struct Safetensors;
}

namespace tern::graph {

/// A program that cannot become a graph, or a text or file that is none.
class GraphError : public Error {
  using Error::Error;
};

/// How the sizes of a value, or the attributes of a node, depend on the batch n: fixed + each * n.
struct Linear {
  std::int64_t fixed = 0, each = 0;
  std::int64_t at(std::int64_t n) const { return fixed + each * n; }
  bool operator==(const Linear&) const = default;
};

enum class Kind : std::uint8_t {
  input,      ///< comes with each call
  parameter,  ///< is trained
  buffer,     ///< belongs to the state and is not trained
  constant,   ///< a tensor that the program holds
  result      ///< of a node
};

struct Value {
  std::string name;  ///< unique: "x", "features.0.weight", "%3"
  Kind kind = Kind::result;
  DType dtype = DType::float32;
  std::vector<Linear> shape = {};
  Tensor tensor = {};  ///< of a parameter, a buffer and a constant

  Shape shape_at(std::int64_t n) const;
};

/// One call of an operator.
struct Node {
  const operators::Op* op = nullptr;
  operators::Attributes attributes = {};  ///< at the batch of the example
  std::string by_batch = {};              ///< their text, with {2n+1} where they depend on the batch; else empty
  std::vector<int> inputs = {};           ///< values; -1: an input that the call leaves out
  std::vector<int> results = {};
  std::string module = {};  ///< the path of the module that calls it
};

/// Plain data: passes rewrite it. Nodes stand in an order in which they can run.
struct Structure {
  std::string name = "graph";
  std::int64_t batch = 0;     ///< of the example; 0: all sizes are fixed
  std::int64_t least = 0;     ///< batch: 1 where the program does other work without examples
  std::string fixed_by = {};  ///< why a trace left them fixed; empty: it did not, or nobody knows
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int> inputs, results;

  /// How many nodes read a value, its being a result of the graph counted as one.
  std::vector<int> uses() const;
  /// Adds a value with a name that nobody has, made of `name`.
  int add(Value value);
  /// The attributes of a node at a batch.
  operators::Attributes attributes_at(const Node& node, std::int64_t n) const;
};

/// A graph that runs: a module with the parameters and buffers of the program that it was traced from, under their
/// names. It trains, saves and loads as that one does; both hold the same tensors.
class Graph : public nn::Module {
 public:
  /// Throws GraphError where a node reads a value that no earlier one made.
  explicit Graph(Structure structure);

  const Structure& structure() const { return body_->structure; }
  /// One tensor per result. The inputs have the shapes of the examples, but for the batch. Throws ShapeError or
  /// DTypeError that names the input.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const;
  /// Of a graph with one input and one result; else Error.
  Tensor forward(const Tensor& x) const override;
  std::string describe() const override;

  /// Lines such as "%0 = conv2d(x, features.0.weight, features.0.bias) padding=2x2"; `parse` reads them.
  std::string text() const;
  /// A drawing of the nodes from top to bottom, with the shapes between them.
  std::string svg() const;
  /// Writes text and tensors to one file (safetensors with the text in its metadata, beside the caller's). Throws
  /// FileError.
  void save(const std::string& file, std::map<std::string, std::string> metadata = {}) const;
  /// Reads such a file, which is not trusted. Throws FileError or GraphError.
  static Graph load(const std::string& file);
  /// The same of a file's content; `file` is its name in messages.
  static Graph load(const io::Safetensors& content, const std::string& file);

  /// The batch of these inputs, which are checked; 0 where all sizes are fixed.
  std::int64_t batch_of(const std::vector<Tensor>& inputs) const;
  /// The attributes of node i at a batch.
  operators::Attributes attributes_at(std::size_t i, std::int64_t n) const;

 private:
  struct Body {
    Structure structure;
    std::vector<std::vector<int>> dies;  // the values that nobody needs behind a node
    std::mutex mutex;
    std::map<std::pair<std::size_t, std::int64_t>, operators::Attributes> attributes;  // of other batches
  };
  std::shared_ptr<Body> body_;
};

/// The text of a structure, and the structure of a text: `tensors` has those of its parameters, buffers and constants.
/// Throws GraphError that names the line.
std::string to_text(const Structure& structure);
Structure parse(const std::string& text, const std::map<std::string, Tensor>& tensors);

}  // namespace tern::graph
