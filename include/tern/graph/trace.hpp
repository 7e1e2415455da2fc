#pragma once

#include <functional>

#include "tern/graph/graph.hpp"

namespace tern::graph {

struct TraceOptions {
  /// Whether the first dimension of every input is a batch of any size: the program is called again with more examples,
  /// to see which sizes follow it in a line. Where the calls differ in more than that, all sizes are fixed.
  bool batch = true;
  std::vector<std::string> inputs = {};  ///< names of the inputs; "x", or "x0", "x1", ... when absent
};

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// The graph of what a module does with these examples, without gradients. Operators are inferred and not run
/// (operators::Op::infer), unless one of them needs the elements of a result. The graph holds the module's parameters
/// and buffers under their names; what training changes in buffers is undone. The program must not depend on the values
/// of tensors: where it reads them on the host, or writes into one that it made, a GraphError says in which module.
Graph trace(const nn::Module& module, const std::vector<Tensor>& examples, const TraceOptions& options = {});
Graph trace(const nn::Module& module, const Tensor& example, const TraceOptions& options = {});
/// The same of a function. Tensors that it holds and that require a gradient are parameters, others constants.
Graph trace(const Function& function, const std::vector<Tensor>& examples, const TraceOptions& options = {});

}  // namespace tern::graph
