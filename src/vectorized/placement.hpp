#pragma once

#include <sched.h>

#include <cstddef>

namespace tern::vectorized {

/// Where a worker runs. The system may wake it on its caller's core and leave it there, where they only take turns: it
/// then avoids that core. It gets no core of its own, which other processes might need.
class Placement {
 public:
  /// Of the calling thread, by the cores that it may use now.
  Placement() : known_(sched_getaffinity(0, sizeof allowed_, &allowed_) == 0) {}

  /// Moves the calling thread if it runs on this core, and may run on another one.
  void leave(int core) {
    if (core < 0 || core == avoided_ || !known_ || sched_getcpu() != core) return;
    cpu_set_t others = allowed_;
    CPU_CLR(static_cast<std::size_t>(core), &others);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0) avoided_ = core;
  }

 private:
  cpu_set_t allowed_{};
  bool known_;
  int avoided_ = -1;
};

}  // namespace tern::vectorized
