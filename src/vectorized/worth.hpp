#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace tern::vectorized {

/// Whether it is worth a caller's while to share its work with the workers. On cores of their own it is. Beside other
/// processes it may not be: a worker that loses its core within a part keeps its caller waiting for a time slice, and
/// one that spins on the caller's core takes half of it. So the caller looks, now and then and for some time slices
/// each: first with the team, and if that seems slow, alone. What was faster holds until the next look, which comes
/// later each time that the answer is the same.
///
/// How fast work goes is the processor time of its parts per time of the clock, the pace: 1 alone on a core, up to the
/// number of threads in a team, and the less the more others hold the cores.
class Worth {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::nanoseconds;

  /// Before every call: whether the caller runs all parts itself.
  bool alone(Clock::time_point now) {
    if (!looks_ && now >= next_look_) {
      looks_ = true;
      alone_ = false;
    }
    return alone_;
  }
  /// Whether add() wants to know of the call that begins.
  bool looks() const { return looks_; }

  /// What a call took by the clock until `now`, and the processor time of its parts.
  void add(Time took, Time work, Clock::time_point now) {
    if (settled_ < settle) {  // the system moves threads between cores, workers wake or fall asleep
      settled_ += took;
      return;
    }
    seen_.took += took;
    seen_.work += work;
    ++seen_.calls;
    if (seen_.took < look) return;
    const Seen seen = std::exchange(seen_, {});
    settled_ = {};
    if (alone_) return decide(team_.pace() < tie * inflation(seen) * seen.pace(), now);
    team_ = seen;
    if (seen.pace() < surely)
      alone_ = true;
    else
      decide(false, now);
  }

 private:
  struct Seen {
    Time took{}, work{};
    int calls = 0;
    double pace() const { return static_cast<double>(work.count()) / static_cast<double>(took.count()); }
    double work_per_call() const { return static_cast<double>(work.count()) / calls; }
  };

  /// The same work takes a team more processor time, as data moves between caches. Where the two looks saw different
  /// calls, their work says little: more than twice is not believed.
  double inflation(const Seen& alone) const {
    return std::clamp(team_.work_per_call() / alone.work_per_call(), 1., 2.);
  }

  void decide(bool alone, Clock::time_point now) {
    rest_ = alone == decided_ ? std::min(2 * rest_, longest_rest) : shortest_rest;
    alone_ = decided_ = alone;
    looks_ = false;
    next_look_ = now + rest_;
  }

  static constexpr Time settle = std::chrono::milliseconds(8), look = std::chrono::milliseconds(20);
  static constexpr Time shortest_rest = std::chrono::milliseconds(250), longest_rest = std::chrono::seconds(2);
  static constexpr double surely = 1.25;  // faster than any caller is alone, though some of the work be inflation
  static constexpr double tie = 1.1;      // leaves the cores to others

  Seen seen_, team_;
  Time settled_{}, rest_ = shortest_rest;
  Clock::time_point next_look_{};
  bool looks_ = true, alone_ = false, decided_ = false;
};

}  // namespace tern::vectorized
