#pragma once
// From a trained network in float32 to one that infers in 8 bits.

#include <string>
#include <vector>

#include "tern/graph/graph.hpp"

namespace tern::graph {

/// How the range of an activation follows from what the calibration showed.
enum class Calibration : std::uint8_t {
  min_max,     ///< from the smallest to the largest
  percentile,  ///< leaves out the outermost ones, see QuantizeOptions::percentile
  entropy      ///< the range whose stored numbers lose least (Kullback-Leibler divergence of 2048 bins)
};

struct QuantizeOptions {
  Calibration calibration = Calibration::min_max;
  double percentile = 99.99;  ///< of the numbers that lie within the range
  /// Of the results: the root of the mean squared difference from float32's, divided by the root of their mean square.
  /// Where quantised layers exceed it, the worst ones return to float32 until they no longer do.
  double bound = 0.1;
  bool force = false;  ///< quantises layers that are not faster in 8 bits, too
  int repeats = 5;     ///< timings of each layer, of which the shortest counts; 0: none, as with `force`
};

/// One convolution or linear layer.
struct QuantizedLayer {
  std::string name;  ///< the module's path, else the value's name
  bool quantized = false;
  double error = 0;  ///< of the layer's result alone, as QuantizeOptions::bound measures; its input is exact
  double float_seconds = 0, int8_seconds = 0;  ///< one call at the batch of the calibration, in this place; 0: not
                                               ///< timed
};

struct QuantizeReport {
  std::vector<QuantizedLayer> layers;          ///< in the order of the graph
  double error = 0;                            ///< of the results
  double float_seconds = 0, int8_seconds = 0;  ///< of the whole program
  /// A table, one line per layer.
  std::string text() const;
};

/// A graph for inference that computes convolutions, linear layers, poolings, sums and concatenations in 8 bits, in the
/// mode of the scope: with for_inference's folding of batch normalisation, and with activations that stay uint8 from
/// one such node to the next. `batches` are inputs like those of the deployed program: a list per call. The graph's
/// inputs and results keep their dtypes. A layer is quantised where it is faster in 8 bits, and the whole where the
/// program is; else the graph stays as for_inference makes it. Throws Error where there are no batches.
Graph quantize(const Graph& graph, const std::vector<std::vector<Tensor>>& batches, const QuantizeOptions& options = {},
               QuantizeReport* report = nullptr);

}  // namespace tern::graph
