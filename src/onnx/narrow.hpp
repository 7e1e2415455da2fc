#pragma once
// Element types that no tensor has. A wider dtype carries their values.

#include <optional>
#include <string>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::onnx {

struct Narrow {
  std::int64_t type;  ///< ONNX's number
  DType dtype;        ///< of a tensor with such values
  int bits;
  bool sign;
  // Of a floating type; no mantissa and no sign is a power of two.
  int exponent = 0, mantissa = 0, bias = 0;
  double largest = 0;
  enum class Special { none, ieee, last, negative_zero } special = Special::none;  ///< which bits are not finite

  bool floating() const { return exponent > 0; }
  double low() const { return sign ? -static_cast<double>(std::int64_t{1} << (bits - 1)) : 0; }
  double high() const { return static_cast<double>((std::int64_t{1} << (bits - (sign ? 1 : 0))) - 1); }
};

/// Null for types that tensors have, or that nothing carries.
const Narrow* narrow_of(std::int64_t type);
/// The dtype of a tensor with such elements: their own, or the one that carries them.
std::optional<DType> holding_dtype(std::int64_t type);

/// The number that these bits stand for.
double decoded(const Narrow& narrow, unsigned bits);
/// The elements of packed bytes: the first one has the lowest bits.
std::vector<unsigned> unpacked(const Narrow& narrow, std::string_view bytes, std::size_t count);

/// x in that dtype, with values of the type, as ONNX's Cast has it. Integers lose their upper bits; floats round to
/// nearest even, and beyond the largest become it, or infinity or NaN where they do not saturate. `round_mode` is "up",
/// "down" or "nearest", for powers of two.
Tensor narrowed_to(const Narrow& narrow, const Tensor& x, bool saturate = true, const std::string& round_mode = "up");

/// Integers as ones of at most as many bits: the upper ones are lost.
Tensor wrapped_to(const Tensor& x, int bits, bool sign, DType dtype);

}  // namespace tern::onnx
