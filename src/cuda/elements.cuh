#pragma once
// The element types of arrays, and conversions: products may read and write bfloat16.

#include <cuda_bf16.h>

#include <cstdint>

namespace tern::cuda {

using bf16 = __nv_bfloat16;

enum class Element : std::uint8_t { float32, float64, bfloat16 };
inline std::int64_t bytes_of(Element element) {
  return element == Element::bfloat16 ? 2 : element == Element::float32 ? 4 : 8;
}
inline const char* name_of(Element element) {
  return element == Element::bfloat16 ? "bfloat16" : element == Element::float32 ? "float32" : "float64";
}
template <class T>
inline constexpr Element element_of = sizeof(T) == 2   ? Element::bfloat16
                                      : sizeof(T) == 4 ? Element::float32
                                                       : Element::float64;

__device__ __forceinline__ void convert(float& to, float from) { to = from; }
__device__ __forceinline__ void convert(bf16& to, float from) { to = __float2bfloat16_rn(from); }
__device__ __forceinline__ void convert(float& to, bf16 from) { to = __bfloat162float(from); }

}  // namespace tern::cuda
