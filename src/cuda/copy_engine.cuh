#pragma once
// The copy engine of compute capability 9.0: one thread requests a box of an array, which arrives in shared memory
// while a barrier counts its bytes.

#include <cuda.h>

#include <type_traits>

#include "cuda/support.cuh"

namespace tern::cuda::copy_engine {

// ---- the driver's encoding ----

/// Null on an older driver.
struct Encoders {
  decltype(&cuTensorMapEncodeTiled) tiled = nullptr;
  decltype(&cuTensorMapEncodeIm2col) windows = nullptr;
};
inline const Encoders& encoders() {
  static const Encoders found = [] {
    Encoders e;
    const auto find = [](const char* name, auto& to) {
      void* entry = nullptr;
      cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
      const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &result);
#else
      const cudaError_t status = cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &result);
#endif
      if (status == cudaSuccess && result == cudaDriverEntryPointSuccess)
        to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(entry);
    };
    find("cuTensorMapEncodeTiled", e.tiled), find("cuTensorMapEncodeIm2col", e.windows);
    cudaGetLastError();
    return e;
  }();
  return found;
}

// ---- the instructions ----

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ unsigned shared_address(const void* of) {
  return static_cast<unsigned>(__cvta_generic_to_shared(of));
}
__device__ __forceinline__ void start_barrier(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void expect_bytes(std::uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void await(std::uint64_t* barrier, int phase) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra ended;\nbra "
      "again;\nended:\n}" ::"r"(shared_address(barrier)),
      "r"(phase)
      : "memory");
}
__device__ __forceinline__ void fetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<std::uint64_t>(&map)) : "memory");
}
#endif

}  // namespace tern::cuda::copy_engine
