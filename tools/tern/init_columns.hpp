#pragma once
// Reorders the weights of a table's net for a table with another column order.

#include "blueprint.hpp"
#include "tern/nn/module.hpp"

namespace tern::tool {

/// Puts the first layer's weights, and the vectors of categories, of a net of `before` in the input order of `now`:
/// columns and categories are matched by name. What `before` does not know is taken from `fresh`, the weights of `now`.
/// Returns the names of those columns. Does nothing if a table had no header, so that the position counts, or if the
/// first layers have other sizes.
std::vector<std::string> match_columns(nn::State& weights, const Blueprint& before, const Blueprint& now,
                                       const nn::State& fresh);

}  // namespace tern::tool
