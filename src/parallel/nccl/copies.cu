// Copies of several pieces at once, for a transport that accepts one buffer.

#include <cuda_runtime.h>

#include <algorithm>

#include "parallel/nccl/units.cuh"

namespace tern::parallel {

namespace {

// Runs concurrently with the rest of backward, which needs the multiprocessors: enough blocks to saturate the memory,
// and no more.
constexpr unsigned threads = 512, most_blocks = 64;

__global__ void __launch_bounds__(threads) gather_units(const __grid_constant__ Pieces pieces, uint4* whole) {
  for (std::uint32_t i = blockIdx.x * threads + threadIdx.x; i < pieces.begin[pieces.count]; i += gridDim.x * threads)
    whole[i] = unit_of(pieces, i).load();
}

__global__ void __launch_bounds__(threads) scatter_units(const uint4* whole, const __grid_constant__ Pieces pieces) {
  for (std::uint32_t i = blockIdx.x * threads + threadIdx.x; i < pieces.begin[pieces.count]; i += gridDim.x * threads)
    unit_of(pieces, i).store(whole[i]);
}

unsigned blocks_of(const Pieces& pieces) {
  return std::clamp((pieces.units() + threads - 1) / threads, 1u, most_blocks);
}

}  // namespace

int gather(const Pieces& pieces, void* whole, void* stream) {
  gather_units<<<blocks_of(pieces), threads, 0, static_cast<cudaStream_t>(stream)>>>(pieces,
                                                                                     static_cast<uint4*>(whole));
  return cudaGetLastError();
}

int scatter(const void* whole, const Pieces& pieces, void* stream) {
  scatter_units<<<blocks_of(pieces), threads, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const uint4*>(whole),
                                                                                      pieces);
  return cudaGetLastError();
}

int load_copies() {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, gather_units);
  return status != cudaSuccess ? status : cudaFuncGetAttributes(&attributes, scatter_units);
}

}  // namespace tern::parallel
