#pragma once
// Shared by optimisers whose step is composed of operators.

#include "tern/autograd/tape.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/tensor/create.hpp"

namespace tern::optim {

/// The tensor in the dtype of a slot: float32 for 16-bit parameters.
inline Tensor wide(const Tensor& tensor) { return tensor.to(scalar_of(tensor.dtype())); }

/// gradient + weight_decay * parameter.
inline Tensor decayed_gradient(const Tensor& parameter, double weight_decay) {
  const Tensor gradient = wide(parameter.grad());
  return weight_decay == 0 ? gradient : gradient + wide(parameter) * weight_decay;
}

/// old = keep * old + add, in place.
inline void blend(Tensor& old, double keep, const Tensor& add) { old.copy_(old * keep + add); }

/// parameter -= change, in place; rounded once if it has 16 bits.
inline void subtract(const Tensor& parameter, const Tensor& change) {
  Tensor(parameter).copy_(wide(parameter) - change);
}

}  // namespace tern::optim
