#pragma once

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// A convolution of 1x1, a depthwise one behind it and one of 1x1 behind that, or the last two, become one
/// inverted_residual. The bits stay.
void join_residuals(Structure& structure);

}  // namespace tern::graph
