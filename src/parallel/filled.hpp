#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::parallel {

/// Made in the mode of the scope, where tern::full makes it on the host and moves it, which a recording cannot.
inline Tensor filled(const Shape& shape, Number value, DType dtype) {
  Tensor tensor(shape, dtype);
  tensor.fill_(value);
  return tensor;
}

}  // namespace tern::parallel
