#pragma once
// What calibration shows of each value, and the quantization that follows from it.

#include <map>

#include "tern/graph/graph.hpp"
#include "tern/graph/quantize.hpp"
#include "tern/operators/quantized.hpp"

namespace tern::graph::quantizing {

/// The quantization of each of `values` (float32, of the structure). Those outside the chosen range are stored as its
/// ends.
std::map<int, operators::Quantization> quantizations(const Structure& structure, const std::vector<int>& values,
                                                     const std::vector<std::vector<Tensor>>& batches,
                                                     const QuantizeOptions& options);

/// The quantization whose stored numbers reach from `low` to `high`, 0 among them.
operators::Quantization quantization_of(double low, double high);

/// What each call of the structure gives for `values`.
std::vector<Tensor> values_of(const Structure& structure, const std::vector<int>& values,
                              const std::vector<Tensor>& inputs);

}  // namespace tern::graph::quantizing
