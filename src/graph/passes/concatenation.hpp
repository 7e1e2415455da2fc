#pragma once

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// A part of `fuse`.
void join_concatenated(Structure& structure);

}  // namespace tern::graph
