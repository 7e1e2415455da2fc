#pragma once
// How the mode chooses, and remembers what it chose. A key holds everything that the choice reads: two problems with
// one key must be the same to it. The device is added here; what is remembered is the choice alone (a number, a name),
// never sizes or pointers of the problem that it was made for.

#include <mutex>
#include <optional>

#include "cuda/memo.cuh"
#include "cuda/support.cuh"
#include "tern/core/error.hpp"

namespace tern::cuda {

/// By a rule, which is arithmetic on sizes: make() on the first call with this key in this thread, the same after that,
/// because searching anew would cost more than the kernel. `Rule` keeps rules apart.
template <class Rule, class Key, class Make>
auto remembered(const Key& key, const Make& make) {
  thread_local Memo<std::pair<int, Key>, decltype(make())> chosen;
  const std::pair whole{card().device, key};
  if (const auto* known = chosen.find(whole)) return *known;
  return chosen.keep(whole, make());
}

/// By a trial: what trial() found for this key in this process. Under `deterministic`, and in a recording that meets
/// the key first, nothing may be timed: then `untried`, which is not remembered. `Decision` keeps choosers apart.
template <class Decision, class Key, class Choice, class Trial>
Choice tried(const Context& context, const Key& key, const Choice& untried, const Trial& trial) {
  if (context.deterministic) return untried;
  static std::mutex mutex;
  static auto* chosen = new Memo<std::pair<int, Key>, Choice>;  // leaked: threads may outlive static objects
  const std::pair whole{card().device, key};
  {
    const std::scoped_lock lock(mutex);
    if (const Choice* known = chosen->find(whole)) return *known;
  }
  if (recording(context)) return untried;
  const Choice found = trial();  // not under the lock: other threads go on
  const std::scoped_lock lock(mutex);
  return chosen->keep(whole, found);
}

/// The number of the fastest of `count` candidates by their times in microseconds; time(i) is empty for one that cannot
/// run, and one for which there is no memory cannot. The first is taken where nothing may be timed.
template <class Decision, class Key, class Time>
std::size_t fastest(const Context& context, const Key& key, std::size_t count, const Time& time) {
  return tried<Decision>(context, key, std::size_t{0}, [&] {
    std::size_t best = 0;
    std::optional<float> best_time;
    for (std::size_t i = 0; i < count; ++i) {
      std::optional<float> needed;
      try {
        needed = time(i);
      } catch (const OutOfMemory&) {
        continue;
      }
      if (!needed || (best_time && *needed >= *best_time)) continue;
      best = i;
      best_time = needed;
    }
    return best;
  });
}

/// What a choice may read of an array: 0 when it is not given, else its alignment in bytes, at most 256.
inline std::uint32_t alignment_of(const void* array) {
  const auto address = reinterpret_cast<std::uintptr_t>(array);
  return static_cast<std::uint32_t>(address != 0 && address % 256 == 0 ? 256 : address & (~address + 1));
}

}  // namespace tern::cuda
