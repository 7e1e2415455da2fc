#include <cuda_runtime.h>

#include "parallel/nccl/times.cuh"
#include "tern/core/error.hpp"

namespace tern::parallel {

namespace {

__global__ void begin_stretch(Counting counting) { begin_count(counting); }
__global__ void end_stretch(Counting counting) { end_count(counting); }
__global__ void join_stretches(Times* times) { times->joined = device_now(); }

void check(cudaError_t status) {
  if (status != cudaSuccess) throw ParallelError(message("nccl: times of a device: ", cudaGetErrorString(status)));
}

}  // namespace

void Meter::Free::operator()(Times* times) const { (void)cudaFree(times); }

Meter::Meter() {
  Times* times = nullptr;
  check(cudaMalloc(&times, sizeof *times));
  times_.reset(times);
  check(cudaMemset(times, 0, sizeof *times));
  check(cudaDeviceSynchronize());
  // Loads the kernels, so that no recording has to.
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, begin_stretch));
  check(cudaFuncGetAttributes(&attributes, end_stretch));
  check(cudaFuncGetAttributes(&attributes, join_stretches));
}

void Meter::begin(const Counting& counting, void* stream) {
  if (counting.times == nullptr) return;
  begin_stretch<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(counting);
  check(cudaGetLastError());
}

void Meter::end(const Counting& counting, void* stream) noexcept {
  if (counting.times != nullptr) end_stretch<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(counting);
}

void Meter::join(void* stream) const {
  join_stretches<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(times_.get());
  check(cudaGetLastError());
}

Collective::Spent Meter::spent() const {
  Times times{};
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(&times, times_.get(), sizeof times, cudaMemcpyDeviceToHost));
  settle(times);
  return {.busy = 1e-9 * static_cast<double>(times.busy), .waited = 1e-9 * static_cast<double>(times.waited)};
}

}  // namespace tern::parallel
