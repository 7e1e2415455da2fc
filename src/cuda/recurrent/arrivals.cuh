#pragma once
// How the blocks of a cluster wait for each other: all at a barrier, or each for the numbers that others write into its
// shared memory, counted where they arrive (st.async and mbarrier in PTX). At a barrier every block also waits until
// its results are in memory.

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace tern::cuda::recurrence {

/// Waits for the other threads of the block and, if there are several, of the cluster's `spread` blocks.
__device__ __forceinline__ void synchronize(int spread) {
#if __CUDA_ARCH__ >= 900
  if (spread > 1) return cooperative_groups::this_cluster().sync();
#endif
  __syncthreads();
}

/// Two barriers that are used in turn. A block sends for a turn only after it has what was sent for the one before.
class Arrivals {
 public:
  /// At 16 bytes of shared memory, the same in all blocks. Made by all threads, before the cluster's first barrier.
  __device__ __forceinline__ explicit Arrivals(void* at)
      : address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(at))) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x != 0) return;
    for (unsigned i = 0; i < 2; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address_ + 8 * i) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }

  /// Waits until that many bytes have arrived for this turn; all threads call it.
  __device__ __forceinline__ void await(unsigned turn, unsigned expected) {
#if __CUDA_ARCH__ >= 900
    const std::uint32_t barrier = address_ + turn % 2 * 8, parity = phases_ >> (turn % 2) & 1;
    if (threadIdx.x == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(expected) : "memory");
    std::uint32_t complete = 0;
    while (complete == 0)
      asm volatile(
          "{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}"
          : "=r"(complete)
          : "r"(barrier), "r"(parity)
          : "memory");
    phases_ ^= 1u << (turn % 2);
#endif
  }

  /// Writes numbers to the same place in each of `spread` blocks, for a turn.
  template <int count>
  __device__ __forceinline__ void send(float* to, const float (&values)[count], unsigned turn, unsigned spread) const {
#if __CUDA_ARCH__ >= 900
    const auto own = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
    for (unsigned rank = 0; rank < spread; ++rank) {
      const std::uint32_t place = in_block(own, rank), barrier = in_block(address_ + turn % 2 * 8, rank);
      if constexpr (count == 4)
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(place),
            "r"(__float_as_uint(values[0])), "r"(__float_as_uint(values[1])), "r"(__float_as_uint(values[2])),
            "r"(__float_as_uint(values[3])), "r"(barrier)
            : "memory");
      else
#pragma unroll
        for (int i = 0; i < count; ++i)
          asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(place + 4 * i),
                       "r"(__float_as_uint(values[i])), "r"(barrier)
                       : "memory");
    }
#endif
  }

 private:
  /// The address of a block's own shared memory, in another block.
  static __device__ __forceinline__ std::uint32_t in_block(std::uint32_t address, unsigned rank) {
    std::uint32_t there = address;
#if __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
#endif
    return there;
  }

  std::uint32_t address_, phases_ = 0;
};

}  // namespace tern::cuda::recurrence
