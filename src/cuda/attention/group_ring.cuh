#pragma once
// Stages of shared memory that the copy engine fills while warpgroups use others, at their own pace.

#include "cuda/attention/head_boxes.cuh"

namespace tern::cuda::scaled_dot_product {

/// Barriers of a block. Stage step % Stages has the rows of a step.
template <int Stages>
struct GroupRing {
  static constexpr int count = 2 * Stages + 1;
  std::uint64_t* barriers;

  static __device__ __forceinline__ int slot(int step) {
    return static_cast<int>(static_cast<unsigned>(step) % Stages);
  }
  __device__ __forceinline__ std::uint64_t* own() const { return barriers + 2 * Stages; }  ///< the block's own rows
  __device__ __forceinline__ std::uint64_t* full(int step) const { return barriers + slot(step); }
  __device__ __forceinline__ std::uint64_t* empty(int step) const { return barriers + Stages + slot(step); }

#ifdef TERN_WGMMA
  /// For one thread, before others use them.
  __device__ __forceinline__ void start(int arrivals, int warps) const {
    for (int i = 0; i < Stages; ++i) start_barrier(full(i), arrivals), start_barrier(empty(i), warps);
    start_barrier(own(), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  /// Waits for the rows of a step.
  __device__ __forceinline__ void await_rows(int step) const {
    await(full(step), static_cast<int>(static_cast<unsigned>(step) / Stages % 2));
    __syncwarp();
  }
  /// Waits until all warps have left a step.
  __device__ __forceinline__ void await_left(int step) const {
    await(empty(step), static_cast<int>(static_cast<unsigned>(step) / Stages % 2));
  }
  /// For all lanes of a warp whose products have read the rows.
  __device__ __forceinline__ void leave(int step) const {
    if (threadIdx.x % 32 == 0) arrive(empty(step));
  }
  /// For all lanes of a warp, each of which has started copies for the step; they count when those have come.
  __device__ __forceinline__ void arrive_copied(int step) const {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(full(step))) : "memory");
  }
  /// For one thread: so many bytes are requested.
  static __device__ __forceinline__ void expect(std::uint64_t* barrier, std::size_t bytes) {
    expect_bytes(barrier, static_cast<int>(bytes));
  }
  __device__ __forceinline__ void await_own() const {
    await(own(), 0);
    __syncwarp();
  }
#else
  static __device__ __forceinline__ void expect(std::uint64_t*, std::size_t) {}
  __device__ __forceinline__ void arrive_copied(int) const {}
  __device__ __forceinline__ void await_own() const {}
  __device__ __forceinline__ void start(int, int) const {}
  __device__ __forceinline__ void await_rows(int) const {}
  __device__ __forceinline__ void await_left(int) const {}
  __device__ __forceinline__ void leave(int) const {}
#endif
};

}  // namespace tern::cuda::scaled_dot_product
