#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace tern::vectorized {

/// Whether sharing work with the workers pays. With free cores it does. Beside other processes it may not: a worker
/// that loses its core within a part keeps its caller waiting for a time slice, and one that spins on the caller's core
/// takes half of it. So the caller measures now and then, for some time slices each: first with the team and, if that
/// seems slow, alone. The faster choice holds until the next measurement, whose interval grows each time the answer is
/// the same.
///
/// The speed of work, its pace, is the processor time of its parts per wall time: 1 alone on a core, up to the number
/// of threads in a team, and less the more others hold the cores.
class Worth {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::nanoseconds;

  /// Call before every call: whether the caller runs all parts itself.
  bool alone(Clock::time_point now) {
    if (!looks_ && now >= next_look_) {
      looks_ = true;
      alone_ = false;
    }
    return alone_;
  }
  /// Whether add() needs the times of the call that begins.
  bool looks() const { return looks_; }

  /// The wall time of a call until `now`, and the processor time of its parts.
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

  /// The same work takes a team more processor time, because data moves between caches. If the two measurements saw
  /// different calls, their work says little: a factor above two is not believed.
  double inflation(const Seen& alone) const {
    return std::clamp(team_.work_per_call() / alone.work_per_call(), 1., 2.);
  }

  void decide(bool alone, Clock::time_point now) {
    const Time longest = alone ? longest_rest_alone : longest_rest;
    rest_ = alone == decided_ ? std::min(2 * rest_, longest) : alone ? first_rest_alone : shortest_rest;
    alone_ = decided_ = alone;
    looks_ = false;
    next_look_ = now + rest_;
  }

  static constexpr Time settle = std::chrono::milliseconds(8), look = std::chrono::milliseconds(20);
  static constexpr Time shortest_rest = std::chrono::milliseconds(250), longest_rest = std::chrono::seconds(2);
  // Another process may just have ended its work, with threads that still spin for some milliseconds.
  static constexpr Time first_rest_alone = std::chrono::milliseconds(40);
  // A look takes a tenth of that; a team that is not used costs half of the cores or more.
  static constexpr Time longest_rest_alone = std::chrono::milliseconds(700);
  static constexpr double surely = 1.25;  // faster than any caller alone, even if some of the work is inflation
  static constexpr double tie = 1.1;      // leaves the cores to others

  Seen seen_, team_;
  Time settled_{}, rest_ = shortest_rest;
  Clock::time_point next_look_{};
  bool looks_ = true, alone_ = false, decided_ = false;
};

}  // namespace tern::vectorized
