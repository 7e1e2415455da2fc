#pragma once
// Loads that a thread issues together.

#include <cuda_runtime.h>

namespace tern::cuda::products {

/// `Count` consecutive floats, or zeros. Volatile keeps a thread's loads together; otherwise the compiler would wait
/// for each to save registers.
template <int Count>
__device__ __forceinline__ void load_or_zero(float (&to)[Count], const float* from, bool exists) {
#pragma unroll
  for (int i = 0; i < Count; ++i) to[i] = 0;
  if constexpr (Count == 4)
    asm volatile(
        "{ .reg .pred exists;\n"
        "  setp.ne.s32 exists, %5, 0;\n"
        "  @exists ld.global.v4.f32 {%0, %1, %2, %3}, [%4]; }"
        : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
        : "l"(from), "r"(static_cast<int>(exists))
        : "memory");
  else if constexpr (Count == 2)
    asm volatile(
        "{ .reg .pred exists;\n"
        "  setp.ne.s32 exists, %3, 0;\n"
        "  @exists ld.global.v2.f32 {%0, %1}, [%2]; }"
        : "+f"(to[0]), "+f"(to[1])
        : "l"(from), "r"(static_cast<int>(exists))
        : "memory");
  else
    asm volatile(
        "{ .reg .pred exists;\n"
        "  setp.ne.s32 exists, %2, 0;\n"
        "  @exists ld.global.f32 %0, [%1]; }"
        : "+f"(to[0])
        : "l"(from), "r"(static_cast<int>(exists))
        : "memory");
}

}  // namespace tern::cuda::products
