#pragma once
// Rewriting graphs. Each pass keeps what the graph computes: bit for bit unless it says otherwise.

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// Removes nodes whose results nobody reads, and parameters, buffers and constants that no node reads. What draws
/// random numbers or changes a buffer stays.
void remove_dead(Structure& structure);
/// Computes what depends on constants alone, in the mode of the scope.
void fold_constants(Structure& structure);
/// Computes what is computed twice once.
void merge_common(Structure& structure);
/// Moves reshapes behind operators of single elements, and removes those that cancel out.
void move_reshapes(Structure& structure);
/// Joins neighbours that one kernel can compute, by the table of src/operators/fusion.cpp. With Rounding::fewer also
/// those that it rounds once and not twice: a sum behind batch normalisation.
enum class Rounding : std::uint8_t { same, fewer };
void fuse(Structure& structure, Rounding rounding = Rounding::same);
/// For inference alone: parameters and buffers become constants, batch normalisation by running statistics becomes part
/// of the convolution or linear layer before it. The weights are rounded once more: results differ from the module's by
/// a few units in the last place of the largest term of their sums.
void fold_batch_norm(Structure& structure);
/// Makes products with constant matrices, and constant rows added to them, linear layers. The sums' order may change.
void join_linear(Structure& structure);
/// For inference alone, as fold_batch_norm: scales and shifts behind convolutions and linear layers become part of
/// their weights, and so do sums of convolutions and normalisations that read the same value, or of one and that value.
void merge_layers(Structure& structure);
/// Cuts what reads padding alone off the constant weights of convolutions, as in wide dilations over small images.
void trim_taps(Structure& structure);

/// The first five.
Graph optimized(const Graph& graph);
/// All passes, with Rounding::fewer. The graph no longer follows changes of the parameters.
Graph for_inference(const Graph& graph);

}  // namespace tern::graph
