#pragma once

#include <cuda_runtime.h>

namespace tern::cuda {

template <class T>
__device__ T sigmoid_of(T x) {
  // exp of a number that is never positive: no overflow on either side.
  const T e = ::exp(-::fabs(x)), part = x < 0 ? e : T{1};
  if constexpr (sizeof(T) == 4)
    return __fdividef(part, 1 + e);  // a divisor from 1 to 2 needs no care
  else
    return part / (1 + e);
}

}  // namespace tern::cuda
