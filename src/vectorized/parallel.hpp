#pragma once
// How the operators of this mode use the cores: at most one call of the team each, and none for short work.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tern/kernels/context.hpp"
#include "vectorized/team.hpp"

namespace tern::vectorized {

/// The number of threads worth using for `nanoseconds` of serial work: 1 if it is short, if the context allows no more,
/// or if the caller is itself part of a team; otherwise all. Waking a team costs up to tens of microseconds when
/// another process holds a core, and more for more threads. It is never a subset: each thread finds its part of the
/// last operator in its cache.
inline int useful_threads(const Context& context, double nanoseconds) {
  constexpr double least = 10'000, least_per_thread = 2'500;
  if (context.threads <= 1) return 1;
  if (nanoseconds < std::max(least, least_per_thread * context.threads) && !teams_always) return 1;
  return in_team() ? 1 : std::min(context.threads, most_threads);
}

/// One part of a team's work, and the number of parts. A thread may run several.
struct Team {
  int index = 0;
  int size = 1;

  /// This part [begin, end) of `items`, an equal contiguous share rounded to `multiple`.
  std::int64_t begin(std::int64_t items, std::int64_t multiple = 1) const { return edge(items, multiple, index); }
  std::int64_t end(std::int64_t items, std::int64_t multiple = 1) const { return edge(items, multiple, index + 1); }

 private:
  std::int64_t edge(std::int64_t items, std::int64_t multiple, int part) const {
    const std::int64_t units = (items + multiple - 1) / multiple;
    return std::min(items, units * part / size * multiple);
  }
};

/// Runs body(team, phase) for each of `threads` parts (from useful_threads), phase by phase: all parts of a phase end
/// before the next begins. An exception of a body reaches the caller.
template <class Body>
void parallel_phases(int threads, int phases, Body&& body) {
  if (threads <= 1) {
    for (int phase = 0; phase < phases; ++phase) body(Team{}, phase);
    return;
  }
  using Function = std::remove_reference_t<Body>;
  run_team({.run =
                [](void* function, int part, int parts, int phase) {
                  (*static_cast<Function*>(function))(Team{part, parts}, phase);
                },
            .body = &body,
            .parts = threads,
            .phases = phases});
}

/// Runs body(team) for each of `threads` parts.
template <class Body>
void parallel(int threads, Body&& body) {
  parallel_phases(threads, 1, [&](const Team& team, int /*phase*/) { body(team); });
}

/// Runs body(begin, end) over [0, items), cut into one contiguous part per thread; `nanoseconds_per_item` is a rough
/// serial cost (a streamed float addition is about 0.2, an exponential 1). An item's result must not depend on the
/// cuts: a reduction makes fixed blocks of its input the items.
template <class Body>
void parallel_for(const Context& context, std::int64_t items, double nanoseconds_per_item, Body&& body) {
  if (items <= 0) return;
  const double work = static_cast<double>(items) * nanoseconds_per_item;
  const int threads = items == 1 ? 1 : useful_threads(context, work);
  // Cuts at whole cache lines if that costs no balance.
  const std::int64_t multiple = items >= std::int64_t{1024} * threads ? 16 : 1;
  parallel(threads, [&](const Team& team) {
    const std::int64_t begin = team.begin(items, multiple), end = team.end(items, multiple);
    if (begin < end) body(begin, end);
  });
}

}  // namespace tern::vectorized
