#pragma once

#include <map>

#include "graph/quantize/layers.hpp"

namespace tern::graph::quantizing {

/// The structure with `layers` in 8 bits: what lies between them (see `follows`) stays stored, and numbers are
/// quantised and dequantised where stored and float32 values meet. `as` has the quantization of every value that may be
/// stored.
Structure rewritten(const Structure& structure, const std::vector<Layer>& layers,
                    const std::map<int, Quantization>& as);

/// Joins concatenations with the convolutions that make their inputs, where all have the quantization of the result.
void join_concatenated(Structure& structure);

/// The nodes of one layer alone: its input and its summand are the inputs of the graph.
Structure alone(const Structure& structure, const Layer& layer);
/// The same in 8 bits; the inputs are stored, and the result is, unless it is float32 in the program.
Structure alone_stored(const Structure& structure, const Layer& layer, const std::map<int, Quantization>& as);

}  // namespace tern::graph::quantizing
