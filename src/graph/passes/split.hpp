#pragma once

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// Takes fused operators apart, for passes that join neighbours in another way: batch_norm with a sum,
/// conv2d_add, conv2d_max_pool2d, conv2d_cat, inverted_residual. Activations inside of convolutions and linear layers
/// stay.
void split_fused(Structure& structure);

}  // namespace tern::graph
