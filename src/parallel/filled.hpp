#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::parallel {

/// Filled in the scope's mode; tern::full fills on the host and moves, which a recording cannot.
inline Tensor filled(const Shape& shape, Number value, DType dtype) {
  Tensor tensor(shape, dtype);
  tensor.fill_(value);
  return tensor;
}

}  // namespace tern::parallel
