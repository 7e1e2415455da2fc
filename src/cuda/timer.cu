#include <utility>

#include "cuda/choice.cuh"
#include "cuda/cuda.hpp"
#include "cuda/streams.cuh"

// Part of the CUDA Toolkit, but a separate package; without it operators have no names in NVIDIA's profilers.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TERN_NVTX 1
#endif

namespace tern::cuda {

namespace {

/// An event belongs to the card on which it was made, so it is made when it is first recorded there.
struct Mark {
  cudaEvent_t event = nullptr;
  int device = 0;

  Mark() = default;
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark() { drop(); }
  void drop() {
    if (event == nullptr) return;
    cudaEventDestroy(std::exchange(event, nullptr));
    cudaGetLastError();
  }
};

Mark& mark_of(void* handle) { return *static_cast<Mark*>(handle); }

void* make() { return new Mark; }

void record(void* handle, void* stream_handle) {
  const Stream& stream = stream_state(stream_handle);
  Mark& mark = mark_of(handle);
  if (mark.device != stream.device) mark.drop();
  if (mark.event == nullptr) {
    use_card(stream.device);
    check(cudaEventCreate(&mark.event), "creating an event");
    mark.device = stream.device;
  }
  check(cudaEventRecord(mark.event, stream.handle), "recording an event");
}

double elapsed(void* first, void* second) {
  check(cudaEventSynchronize(mark_of(second).event), "waiting for an event");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, mark_of(first).event, mark_of(second).event), "reading two events");
  return static_cast<double>(milliseconds) * 1e-3;
}

void destroy(void* handle) { delete static_cast<Mark*>(handle); }

__global__ void delay_kernel([[maybe_unused]] unsigned long long nanoseconds) {
  begin_kernel();
#ifdef __CUDA_ARCH__
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < nanoseconds);
#endif
}

#ifdef TERN_NVTX
void begin_range(const char* name) { nvtxRangePushA(name); }
void end_range() { nvtxRangePop(); }
#else
void begin_range(const char*) {}
void end_range() {}
#endif

}  // namespace

void delay(const Context& context, unsigned microseconds) {
  launch(context, Grid(1, 1), delay_kernel, microseconds * 1000ull);
}

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
