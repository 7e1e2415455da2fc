#pragma once
// What Linear and Conv2d have in common.

#include <cmath>

#include "tern/nn/init.hpp"
#include "tern/operators/activation.hpp"

namespace tern::nn {

/// A weight [out, in, ...] as PyTorch starts it: kaiming_uniform_ with a = sqrt(5), which is +-1 / sqrt(fan in).
inline Tensor start_weight(const char* layer, const Shape& shape, DType dtype, Generator& generator) {
  expects<DTypeError>(is_floating(dtype), layer, ": weights are floating, not ", dtype);
  for (const std::int64_t size : shape)
    expects<ShapeError>(size > 0, layer, ": sizes are positive; they give a weight of ", shape);
  return init::kaiming_uniform_(Tensor(shape, dtype), generator, {.negative_slope = std::sqrt(5.0)});
}

/// A bias [out], uniform in +-1 / sqrt(fan in).
inline Tensor start_bias(const Tensor& weight, Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(init::fan_in(weight)));
  return init::uniform_(Tensor(Shape{weight.size(0)}, weight.dtype()), generator, -bound, bound);
}

inline const char* suffix(Activation activation) {
  constexpr const char* names[]{"", ", relu", ", sigmoid", ", tanh"};
  return names[static_cast<int>(activation)];
}

}  // namespace tern::nn
