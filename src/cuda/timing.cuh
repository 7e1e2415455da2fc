#pragma once
// Timing of a candidate on the spot, for the choosers that may (never under `deterministic`, never while recording).

#include <algorithm>

#include "cuda/support.cuh"

namespace tern::cuda {

/// The best of a few turns of `work`, which queues on the context's stream and may be repeated.
template <class Work>
float microseconds(const Context& context, const Work& work, int turns = 3, int repeats = 10) {
  cudaEvent_t start = nullptr, stop = nullptr;
  check(cudaEventCreate(&start), "creating an event");
  check(cudaEventCreate(&stop), "creating an event");
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
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  return best;
}

}  // namespace tern::cuda
