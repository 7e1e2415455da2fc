#pragma once

#include "tern/graph/graph.hpp"

namespace tern::onnx {

/// Operators that older files write as several: x / 2 (1 + erf(x / sqrt(2))) becomes gelu. The result is rounded fewer
/// times.
void join_patterns(graph::Structure& structure);

}  // namespace tern::onnx
