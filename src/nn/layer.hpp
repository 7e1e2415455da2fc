#pragma once
// Shared by layers.

#include <cmath>
#include <optional>
#include <string>

#include "tern/nn/init.hpp"
#include "tern/operators/conv.hpp"

namespace tern::nn {

/// A weight [out, in, ...], initialised as Start says.
inline Tensor start_weight(const char* layer, const Shape& shape, DType dtype, Start start, Generator& generator) {
  expects<DTypeError>(is_floating(dtype), layer, ": weights must be floating, not ", dtype);
  for (const std::int64_t size : shape)
    expects<ShapeError>(size > 0, layer, ": sizes are positive; they give a weight of ", shape);
  Tensor weight(shape, dtype);
  // PyTorch's initialisation is kaiming_uniform_ with a = sqrt(5), which is +-1 / sqrt(fan in).
  if (start == Start::torch) init::kaiming_uniform_(weight, generator, {.negative_slope = std::sqrt(5.0)});
  if (start == Start::kaiming) init::kaiming_uniform_(weight, generator, {.nonlinearity = init::Nonlinearity::relu});
  return weight;
}

/// A bias [out].
inline Tensor start_bias(const Tensor& weight, Start start, Generator& generator) {
  Tensor bias(Shape{weight.size(0)}, weight.dtype());
  const double bound = 1 / std::sqrt(static_cast<double>(init::fan_in(weight)));
  if (start == Start::torch) init::uniform_(bias, generator, -bound, bound);
  if (start == Start::kaiming) init::constant_(bias, 0);
  return bias;
}

/// ", padding 1x0 and 0x2" for start and end, if there is any.
inline std::string describe_padding(Pair start, std::optional<Pair> end) {
  if (!end && start.h == 0 && start.w == 0) return {};
  return message(", padding ", start.h, 'x', start.w, end ? message(" and ", end->h, 'x', end->w) : "");
}

inline const char* suffix(Activation activation) {
  constexpr const char* names[]{"", ", relu", ", sigmoid", ", tanh", ", relu6", ", gelu", ", silu", ", hardswish"};
  return names[static_cast<int>(activation)];
}

}  // namespace tern::nn
