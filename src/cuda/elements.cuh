#pragma once
// The element types of arrays, and conversions. Kernels read and write 16-bit elements; registers hold float32.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tern/core/dtype.hpp"

namespace tern::cuda {

using bf16 = BFloat16;

enum class Element : std::uint8_t { float32, float64, bfloat16, float16 };
inline std::int64_t bytes_of(Element element) {
  return element == Element::float64 ? 8 : element == Element::float32 ? 4 : 2;
}
inline const char* name_of(Element element) {
  return element == Element::bfloat16  ? "bfloat16"
         : element == Element::float16 ? "float16"
         : element == Element::float32 ? "float32"
                                       : "float64";
}
template <class T>
inline constexpr Element element_of = std::is_same_v<T, Float16>    ? Element::float16
                                      : std::is_same_v<T, BFloat16> ? Element::bfloat16
                                      : sizeof(T) == 4              ? Element::float32
                                                                    : Element::float64;

/// Whether arrays of T have 16-bit elements.
template <class T>
inline constexpr bool is_half = !std::is_same_v<T, Scalar<T>>;

/// An element as it is computed with: float for 16 bits.
template <class T>
__device__ __forceinline__ T widened(T element) {
  return element;
}
__device__ __forceinline__ float widened(BFloat16 element) {
  return __uint_as_float(static_cast<unsigned>(element.bits) << 16);
}
__device__ __forceinline__ float widened(Float16 element) { return __half2float(__ushort_as_half(element.bits)); }

/// Stores a value, rounded to nearest even.
template <class T>
__device__ __forceinline__ void put(T& to, T value) {
  to = value;
}
__device__ __forceinline__ void put(BFloat16& to, float value) {
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
__device__ __forceinline__ void put(Float16& to, float value) { to.bits = __half_as_ushort(__float2half_rn(value)); }

/// The same from one element to another.
template <class To, class From>
__device__ __forceinline__ void convert(To& to, From from) {
  put(to, widened(from));
}

/// Calls use(elements) with the array as one of the element type.
template <class Use>
decltype(auto) with_elements(Element element, void* array, const Use& use) {
  switch (element) {
    case Element::float64:
      return use(static_cast<double*>(array));
    case Element::bfloat16:
      return use(static_cast<BFloat16*>(array));
    case Element::float16:
      return use(static_cast<Float16*>(array));
    default:
      return use(static_cast<float*>(array));
  }
}

}  // namespace tern::cuda
