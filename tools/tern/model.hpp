#pragma once

#include <memory>
#include <string>

#include "blueprint.hpp"
#include "tern/graph/graph.hpp"

namespace tern::tool {

/// A trained network and its blueprint.
struct Model {
  Blueprint blueprint;
  std::shared_ptr<nn::Module> net;  // in evaluation mode
  std::string file;                 // where it was read from
};

/// Throws FileError unless the graph takes one input of the blueprint's examples and gives one result.
void check_fits(const graph::Graph& graph, const Blueprint& blueprint, const std::string& file);

}  // namespace tern::tool
