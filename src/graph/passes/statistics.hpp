#pragma once

#include <functional>
#include <vector>

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// Batch normalisation by running statistics is x scale + shift per channel: w (x - mean) / sqrt(var + epsilon) + b
/// with scale = w / sqrt(var + epsilon) and shift = b - mean scale.
struct ScaleShift {
  std::vector<double> scale, shift;
};

/// Computed in float64. `input(i)` is what the node reads as input i, from 1 (w) to 4 (var); undefined: 1, or 0 for b.
ScaleShift scale_shift(const Node& norm, const std::function<Tensor(std::size_t i)>& input);

}  // namespace tern::graph
