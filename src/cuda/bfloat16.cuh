#pragma once
// Conversions between the element types of arrays: products may read and write bfloat16.

#include <cuda_bf16.h>

namespace tern::cuda {

using bf16 = __nv_bfloat16;

__device__ __forceinline__ void convert(float& to, float from) { to = from; }
__device__ __forceinline__ void convert(bf16& to, float from) { to = __float2bfloat16_rn(from); }
__device__ __forceinline__ void convert(float& to, bf16 from) { to = __bfloat162float(from); }

}  // namespace tern::cuda
