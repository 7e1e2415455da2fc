#pragma once
// How the operators of this mode use the cores: at most one OpenMP region each, and none for short work.

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

#include "tern/device/context.hpp"

namespace tern::vectorized {

/// The threads worth using for `nanoseconds` of serial work: 1 when it is short, when the context allows no more, or
/// when the caller is itself a worker of a parallel region; else all. Waking a team costs up to tens of microseconds
/// when another process holds a core, and more for more threads. Never some of them: GCC's OpenMP ends threads that a
/// smaller team leaves over and starts new ones for the next larger team, which takes longer than most operators.
inline int useful_threads(const Context& context, double nanoseconds) {
  constexpr double least = 20'000, least_per_thread = 2'500;
  if (context.threads <= 1 || nanoseconds < std::max(least, least_per_thread * context.threads)) return 1;
  return omp_in_parallel() != 0 ? 1 : context.threads;
}

/// One thread of a team.
struct Team {
  int index = 0;
  int size = 1;

  /// Waits for the whole team. A team of one may sit inside a foreign region, where an OpenMP barrier would hang.
  void barrier() const {
    if (size > 1) {
#pragma omp barrier
    }
  }
  /// This thread's part [begin, end) of `items`, an equal contiguous share rounded to `multiple`.
  std::int64_t begin(std::int64_t items, std::int64_t multiple = 1) const { return edge(items, multiple, index); }
  std::int64_t end(std::int64_t items, std::int64_t multiple = 1) const { return edge(items, multiple, index + 1); }

 private:
  std::int64_t edge(std::int64_t items, std::int64_t multiple, int part) const {
    const std::int64_t units = (items + multiple - 1) / multiple;
    return std::min(items, units * part / size * multiple);
  }
};

/// Runs body(team) on `threads` threads (from useful_threads). An exception of a body reaches the caller, but a body
/// that uses the barrier must not throw: allocate scratch before.
template <class Body>
void parallel(int threads, Body&& body) {
  if (threads <= 1) {
    body(Team{});
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel num_threads(threads)
  {
    try {
      body(Team{omp_get_thread_num(), omp_get_num_threads()});
    } catch (...) {
#pragma omp critical(tern_vectorized_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Runs body(begin, end) over [0, items), cut into one contiguous part per thread; `nanoseconds_per_item` is a rough
/// serial cost (a streamed float addition is about 0.2, an exponential 1). What an item computes must not depend on
/// where the cuts are: a reduction makes fixed blocks of its input the items.
template <class Body>
void parallel_for(const Context& context, std::int64_t items, double nanoseconds_per_item, Body&& body) {
  if (items <= 0) return;
  const double work = static_cast<double>(items) * nanoseconds_per_item;
  const int threads = items == 1 ? 1 : useful_threads(context, work);
  // Cuts at whole cache lines where that costs no balance.
  const std::int64_t multiple = items >= std::int64_t{1024} * threads ? 16 : 1;
  parallel(threads, [&](const Team& team) {
    const std::int64_t begin = team.begin(items, multiple), end = team.end(items, multiple);
    if (begin < end) body(begin, end);
  });
}

}  // namespace tern::vectorized
