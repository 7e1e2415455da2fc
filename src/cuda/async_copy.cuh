#pragma once
// Asynchronous copies from global to shared memory (cp.async). Cards before compute capability 8.0 copy synchronously.

#include <cuda_runtime.h>

namespace tern::cuda {

/// Copies `Count` floats (1, 2 or 4, with that alignment), or writes zeros where there is nothing inside. Bypass L1,
/// for 4 floats only, if no other block of the multiprocessor reads the data soon.
template <int Count, bool past_l1 = false>
__device__ __forceinline__ void copy_async(float* to, const float* from, bool inside) {
  static_assert(!past_l1 || Count == 4);
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = inside ? Count * 4 : 0;  // the rest becomes zeros
  if constexpr (past_l1)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(Count * 4), "r"(bytes)
                 : "memory");
#else
#pragma unroll
  for (int i = 0; i < Count; ++i) to[i] = inside ? from[i] : 0.0f;
#endif
}

/// The copies since the last call form a group, which may be empty.
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most `newer` groups of this thread are in flight. Other threads see the copies after a barrier.
template <int newer>
__device__ __forceinline__ void await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(newer) : "memory");
#endif
}

}  // namespace tern::cuda
