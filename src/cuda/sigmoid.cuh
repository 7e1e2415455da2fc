#pragma once

#include <cuda_runtime.h>

namespace tern::cuda {

template <class T>
__device__ T sigmoid_of(T x) {
  // exp of a number that is never positive: no overflow on either side.
  const T e = ::exp(-::fabs(x));
  return (x < 0 ? e : T{1}) / (1 + e);
}

}  // namespace tern::cuda
