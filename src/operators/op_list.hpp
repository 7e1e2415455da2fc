#pragma once
// The list of the public operators, by family.

#include <memory>
#include <vector>

#include "tern/operators/op.hpp"

namespace tern::operators {

using OpList = std::vector<std::unique_ptr<Op>>;

/// Arithmetic, functions, activations and reductions.
void append_elementwise(OpList& ops);
/// Products, convolutions, pooling, normalisation, attention and losses.
void append_networks(OpList& ops);
/// Views, copies, indices and order.
void append_shapes(OpList& ops);

}  // namespace tern::operators
