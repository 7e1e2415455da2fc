#pragma once
// Operators of ONNX by name. One source per family appends its own: an operator is a function of a Call.

#include <map>
#include <string>
#include <vector>

#include "tern/onnx/onnx.hpp"
#include "tern/operators/bits.hpp"
#include "tern/operators/einsum.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/patches.hpp"
#include "tern/operators/scattering.hpp"
#include "tern/operators/sequences.hpp"
#include "tern/operators/thresholds.hpp"
#include "tern/operators/volumes.hpp"
#include "tern/tensor/create.hpp"

namespace tern::onnx {

namespace op = tern::operators;

using Results = std::vector<Tensor>;
using Integers = std::vector<std::int64_t>;

/// By type, with the domain unless it is ONNX's.
using Table = std::map<std::string, Operator, std::less<>>;

void append_elementwise(Table& table);
void append_logic(Table& table);
void append_activations(Table& table);
void append_constants(Table& table);
void append_shapes(Table& table);
void append_indexing(Table& table);
void append_reductions(Table& table);
void append_products(Table& table);
void append_convolutions(Table& table);
void append_pooling(Table& table);
void append_normalization(Table& table);
void append_attention(Table& table);
void append_deform_conv(Table& table);
void append_losses(Table& table);
void append_resizing(Table& table);
void append_quantization(Table& table);
void append_quantized(Table& table);
void append_grids(Table& table);
void append_recurrent(Table& table);

/// All of them.
const Table& table();

/// Whether the dtype is one whose elements count.
inline bool is_integer(const Tensor& x) { return !is_floating(x.dtype()) && x.dtype() != DType::boolean; }
/// The sizes as a list.
inline Integers sizes_of(const Tensor& x) { return {x.shape().begin(), x.shape().end()}; }
/// An axis from 0 to the rank; refuses others.
inline int axis_of(const Call& call, std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) call.refuse(message("has axis ", axis, " for ", rank, " dimensions"));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}
/// Axes by an attribute, or by an input in newer operator sets; absent: an empty list.
inline Integers axes_of(const Call& call, int input) {
  if (call.has(input)) return call.known_integers(input);
  return call.integers("axes");
}

/// Refuses a factor or addend that does not broadcast to a shape, or would make it larger.
inline void check_broadcasts(const Call& call, const Tensor& other, const Shape& shape) {
  bool fits = other.rank() <= shape.rank();
  for (int d = 1; fits && d <= other.rank(); ++d)
    fits = other.size(-d) == 1 || other.size(-d) == shape[shape.rank() - d];
  if (!fits)
    call.refuse(message("broadcasts ", other.shape(), " to ", shape), "give it the last sizes of that shape, or ones");
}

/// [N, heads, L, width] with each head several times, one behind the other.
Tensor repeated_heads(const Tensor& x, std::int64_t times);

/// Integers as ones of at most as many bits: the upper ones are lost, as ONNX says of casts. op::cast saturates.
Tensor wrapped(const Tensor& x, DType dtype);

/// The second input of an operator of two. Before operator set 7 an attribute said where it lies in the first one.
Tensor second_input(const Call& call);

}  // namespace tern::onnx
