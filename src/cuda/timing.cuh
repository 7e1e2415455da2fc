#pragma once
// Timing of candidates on the spot, for the choosers that may (choice.cuh).

#include <algorithm>

#include "cuda/support.cuh"

namespace tern::cuda {

/// An event that ends with its block, on a throw too.
class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "creating an event"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The best of a few turns of `work`, which queues on the context's stream and may be repeated.
template <class Work>
float microseconds(const Context& context, const Work& work, int turns = 3, int repeats = 10) {
  const Event start, stop;
  work();
  float best = 0;
  for (int turn = 0; turn < turns; ++turn) {
    check(cudaEventRecord(start, stream_of(context)), "recording an event");
    for (int i = 0; i < repeats; ++i) work();
    check(cudaEventRecord(stop, stream_of(context)), "recording an event");
    check(cudaEventSynchronize(stop), "timing a candidate");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, stop), "timing a candidate");
    const float time = milliseconds * 1000 / static_cast<float>(repeats);
    best = turn == 0 ? time : std::min(best, time);
  }
  return best;
}

}  // namespace tern::cuda
