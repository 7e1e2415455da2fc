#pragma once

#include <vector>

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// Leaves out the values that are not kept; nothing may refer to them.
void renumber(Structure& structure, const std::vector<bool>& keeps);

}  // namespace tern::graph
