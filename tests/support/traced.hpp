#pragma once
// Samples of the catalogue as graphs.

#include <optional>

#include "support/catalogue.hpp"
#include "tern/graph/trace.hpp"

namespace tern::testing {

/// None for a sample that writes to an input or has a backward.
inline std::optional<graph::Graph> traced(const Sample& sample, const std::vector<Tensor>& inputs) {
  try {
    return graph::trace([&](const std::vector<Tensor>& x) { return sample.call(x); }, inputs, {.batch = false});
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace tern::testing
