#pragma once
// Choices of algorithms (kernels/choice.hpp) on a card: how candidates are timed, and problems with their workspace.

#include <algorithm>
#include <optional>
#include <string>

#include "cuda/aside.cuh"
#include "cuda/streams.cuh"
#include "kernels/choice.hpp"

namespace tern::cuda {

using kernels::Algorithm;
using kernels::Candidates;
using kernels::Chosen;
using kernels::Memo;
using kernels::remembered;

// ---- timing ----

/// An event that is destroyed at the end of its block, also on a throw.
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

/// Delays the work queued after it for this long.
void delay(const Context& context, unsigned microseconds);

/// The best of a few repetitions of `work`, which queues on the context's stream and may be repeated. It is queued
/// while the card waits, so that short kernels are timed and not their launches.
template <class Work>
float microseconds(const Context& context, const Work& work, int turns, int repeats) {
  constexpr unsigned launches = 20;  // upper bound of the microseconds that queueing `work` takes
  const Event start, stop;
  work();
  float best = 0;
  for (int turn = 0; turn < turns; ++turn) {
    delay(context, launches * static_cast<unsigned>(repeats));
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

/// How trials time.
struct CardClock {
  static constexpr int turns = 2, repeats = 5;
  static constexpr float least_gain = 0.2f;  ///< what trials cannot distinguish
  template <class Work>
  static float time(const Context& context, const Work& work, int a_turns, int a_repeats) {
    return microseconds(context, work, a_turns, a_repeats);
  }
};

/// See kernels::choose. A problem first seen during a recording is not timed.
template <class Problem, class Arrays>
Chosen<Problem, Arrays> choose(Context& context, const char* decision, Candidates<Problem, Arrays> algorithms,
                               const Problem& problem, const Arrays& arrays) {
  const auto may_time = [&] { return !recording(context); };
  return kernels::choose<CardClock>(context, decision, algorithms, problem, arrays, context.deterministic, may_time);
}

/// A problem with its choice and workspace: all memory is allocated before work is queued on several streams.
template <class Problem, class Arrays>
class Prepared {
 public:
  Prepared(Context& context, const char* decision, Candidates<Problem, Arrays> algorithms, const Problem& problem,
           const Arrays& arrays)
      : problem_(problem),
        arrays_(arrays),
        chosen_(choose(context, decision, algorithms, problem, arrays)),
        workspace_(context, chosen_.algorithm->bytes(problem, chosen_.plan)) {}
  const Algorithm<Problem, Arrays>* algorithm() const { return chosen_.algorithm; }
  Arrays& arrays() { return arrays_; }
  /// Runs all its work on the stream of `where`.
  void run(Context& where) const {
    chosen_.algorithm->run(where, problem_, arrays_, chosen_.plan, workspace_.template as<void>());
  }

 private:
  Problem problem_;
  Arrays arrays_;
  Chosen<Problem, Arrays> chosen_;
  Scratch workspace_;
};

/// Runs the halves of a backward pass that are present, and last(context) for another parameter. In a recording what is
/// for parameters runs beside the other half, or aside.
template <class Half, class Last>
void run_side_by_side(Context& context, const std::optional<Half>& to_x, const std::optional<Half>& to_weight,
                      const Last& last) {
  const bool goes_aside = to_x && parameters_aside(context);
  const bool forks = !goes_aside && to_x && to_weight && may_fork(context);
  Context beside = context;
  if (goes_aside) beside.stream = next_aside(context);
  if (forks) beside.stream = fork(context);
  if (to_x) to_x->run(context);
  if (to_weight) to_weight->run(beside);
  last(beside);
  if (forks) join(context);
}

inline const char* name_of(Precision precision) {
  return precision == Precision::strict ? "strict"
         : precision == Precision::tf32 ? "tf32"
         : precision == Precision::bf16 ? "bf16"
                                        : "f16";
}

/// What a choice may read about an array: 0 if absent, else its alignment in bytes, at most 256.
inline std::uint32_t alignment_of(const void* array) {
  const auto address = reinterpret_cast<std::uintptr_t>(array);
  return static_cast<std::uint32_t>(address != 0 && address % 256 == 0 ? 256 : address & (~address + 1));
}

/// Divides one block of memory into parts: counts the bytes, and returns the parts if there is a block.
class Parts {
 public:
  explicit Parts(void* block) : block_(static_cast<std::byte*>(block)) {}
  /// Aligned like a block. Null before there is one.
  void* take(std::size_t bytes) {
    void* const part = block_ == nullptr ? nullptr : block_ + bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return part;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* block_;
  std::size_t bytes_ = 0;
};

}  // namespace tern::cuda
