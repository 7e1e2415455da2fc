#pragma once
// Remembering what a rule chose for a shape: searching anew would cost more than the kernel.

#include <map>
#include <utility>

namespace tern::cuda {

/// make() on the first call with this key in this thread, the same value after that. `Rule` keeps rules apart.
template <class Rule, class Key, class Make>
const auto& remembered(const Key& key, const Make& make) {
  thread_local std::map<Key, decltype(make())> chosen;
  const auto found = chosen.find(key);
  if (found != chosen.end()) return found->second;
  return chosen.emplace(key, make()).first->second;
}

}  // namespace tern::cuda
