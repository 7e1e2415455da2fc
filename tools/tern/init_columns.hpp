#pragma once
// Weights of a table's net for a table whose columns stand in another order.

#include "blueprint.hpp"
#include "tern/nn/module.hpp"

namespace tern::tool {

/// Puts the first layer's weights, and the vectors of categories, of a net of `before` in the order of the inputs of
/// `now`: columns and categories are the same where their names are. What `before` does not know is taken from `fresh`,
/// weights of `now`. Returns the names of the columns of which that holds. Nothing happens where a table had no header,
/// so that position counts, or where the first layers have other sizes.
std::vector<std::string> match_columns(nn::State& weights, const Blueprint& before, const Blueprint& now,
                                       const nn::State& fresh);

}  // namespace tern::tool
