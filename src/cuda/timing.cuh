#pragma once
// Timing of candidates on the spot, for the choosers that may (never under `deterministic`, never while recording).

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

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

/// The fastest of `candidates`, the first of them where nothing may be timed. The first call with this key that may
/// asks time(candidate) of each, which is empty for one that cannot run; the process remembers what it found. The type
/// of `time` keeps choosers apart.
template <class Key, class Candidates, class Time>
auto fastest(const Context& context, const Key& key, const Candidates& candidates, const Time& time) ->
    typename Candidates::value_type {
  using Candidate = typename Candidates::value_type;
  if (context.deterministic) return candidates.front();
  static std::mutex mutex;
  static auto* chosen = new std::map<Key, Candidate>;
  {
    const std::scoped_lock lock(mutex);
    const auto found = chosen->find(key);
    if (found != chosen->end()) return found->second;
  }
  Candidate best = candidates.front();
  if (recording(context)) return best;
  std::optional<float> best_time;
  for (const Candidate& candidate : candidates) {
    const std::optional<float> needed = time(candidate);
    if (!needed || (best_time && *needed >= *best_time)) continue;
    best = candidate;
    best_time = needed;
  }
  const std::scoped_lock lock(mutex);
  return chosen->try_emplace(key, best).first->second;
}

}  // namespace tern::cuda
