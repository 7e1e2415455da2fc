#pragma once

#include "onnx/model.hpp"

namespace tern::onnx {

/// Joins QuantizeLinear and DequantizeLinear with what they surround: convolutions, matrix products with constant
/// weights, sums, averages, concatenations and what only moves elements compute with stored numbers of 8 bits. They
/// become nodes of the domain "tern.int8" (quantized.cpp has them); their numbers are uint8, int8 plus 128 where the
/// file has int8. Everything else stays as it is.
void join_quantized(GraphProto& graph);

}  // namespace tern::onnx
