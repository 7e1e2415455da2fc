#pragma once
// The convolutions and linear layers of a graph, each with what its kernel computes behind it in 8 bits.

#include <optional>

#include "tern/graph/graph.hpp"
#include "tern/operators/quantized.hpp"

namespace tern::graph::quantizing {

using operators::Quantization;

struct Layer {
  std::size_t node = 0;                       ///< the convolution or the linear layer
  std::optional<std::size_t> add = {};        ///< the sum behind it
  std::optional<std::size_t> bound = {};      ///< the relu or relu6 behind both
  std::size_t last = 0;                       ///< the last of these nodes, where the layer runs
  int x = -1, other = -1, result = -1;        ///< values
  std::optional<double> low = {}, high = {};  ///< bounds of the result
};

/// The layers whose weights are constants, in the order of their convolutions and linear layers. Of two that meet at a
/// sum the later one takes it along.
std::vector<Layer> find_layers(const Structure& structure);

/// Whether a node only passes stored numbers on, or combines them: pooling, sums, concatenations, reshapes.
bool follows(const Structure& structure, const Node& node);
/// Whether its result has the quantization of its input.
bool keeps_quantization(const Node& node);

/// Weights and bias of a layer in 8 and 32 bits.
struct Weights {
  Tensor weight;              ///< [O, KH, KW, C / groups] or [out, in], int8
  std::vector<double> scale;  ///< of each output channel
  std::vector<double> sum;    ///< of each channel's stored weights
  std::vector<double> bias;   ///< in float
};
Weights quantized_weights(const Structure& structure, const Node& node, double x_scale);

/// The values of a layer in 8 bits.
struct Stored {
  int value = -1;  ///< -1: there is none
  Quantization as = {};
};
struct LayerValues {
  Stored x, other;
  std::optional<Quantization> as;  ///< of the result; none: it is float32
  int result;
};
/// Appends nodes and constants of the layer in 8 bits, made of the original `node`.
void emit_layer(Structure& structure, const Layer& layer, const Node& node, const LayerValues& values);

}  // namespace tern::graph::quantizing
