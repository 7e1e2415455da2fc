#include "cuda/cuda.hpp"
#include "cuda/support.cuh"

// Part of the CUDA Toolkit, but a package of its own; without it operators have no names in NVIDIA's profilers.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TERN_NVTX 1
#endif

namespace tern::cuda {

namespace {

cudaEvent_t event_of(void* mark) { return static_cast<cudaEvent_t>(mark); }

void* make() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "creating an event");
  return event;
}

void record(void* mark, void* stream) {
  check(cudaEventRecord(event_of(mark), static_cast<cudaStream_t>(stream)), "recording an event");
}

double elapsed(void* first, void* second) {
  check(cudaEventSynchronize(event_of(second)), "waiting for an event");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event_of(first), event_of(second)), "reading two events");
  return static_cast<double>(milliseconds) * 1e-3;
}

void destroy(void* mark) {
  cudaEventDestroy(event_of(mark));
  cudaGetLastError();
}

#ifdef TERN_NVTX
void begin_range(const char* name) { nvtxRangePushA(name); }
void end_range() { nvtxRangePop(); }
#else
void begin_range(const char*) {}
void end_range() {}
#endif

}  // namespace

const Timer& timer() {
  static const Timer timer{.make = make,
                           .record = record,
                           .elapsed = elapsed,
                           .destroy = destroy,
                           .begin_range = begin_range,
                           .end_range = end_range};
  return timer;
}

}  // namespace tern::cuda
