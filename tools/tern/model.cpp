#include "model.hpp"

namespace tern::tool {

void check_fits(const graph::Graph& graph, const Blueprint& blueprint, const std::string& file) {
  Shape input{1};
  for (const std::int64_t size : blueprint.input) input.push_back(size);
  const graph::Structure& own = graph.structure();
  const bool one = own.inputs.size() == 1 && own.results.size() == 1;
  expects<FileError>(one && own.values[own.inputs[0]].shape_at(1) == input, file,
                     ": the graph does not take one input ", input, " and give one result");
}

}  // namespace tern::tool
