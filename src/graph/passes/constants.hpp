#pragma once

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// Adds a constant of a pass, named after the module of the node that it is for. Returns the value.
int add_constant(Structure& structure, const Node& node, const char* name, const Tensor& tensor);

/// Makes parameters and buffers constants.
void freeze(Structure& structure);

}  // namespace tern::graph
