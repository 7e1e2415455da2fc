#pragma once
// A bounded cache.

#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace tern::kernels {

/// Holds at most `most` values; adding one more drops the least recently used. Not thread-safe.
template <class Key, class Value>
class Memo {
 public:
  explicit Memo(std::size_t most = 1024) : most_(most) {}

  /// Null if there is none; valid until the next keep().
  const Value* find(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second.place);
    return &found->second.value;
  }
  /// Existing values are kept.
  const Value& keep(const Key& key, Value value) {
    if (const Value* known = find(key)) return *known;
    if (full()) {
      entries_.erase(*order_.back());
      order_.pop_back();
    }
    const auto made = entries_.emplace(key, Entry{std::move(value), {}}).first;
    order_.push_front(&made->first);
    made->second.place = order_.begin();
    return made->second.value;
  }
  /// Whether adding one would drop another.
  bool full() const { return entries_.size() >= most_; }
  std::size_t size() const { return entries_.size(); }
  /// Calls use(key, value) for all, in key order.
  template <class Use>
  void each(const Use& use) const {
    for (const auto& [key, entry] : entries_) use(key, entry.value);
  }

 private:
  using Order = std::list<const Key*>;  // most recently used first
  struct Entry {
    Value value;
    typename Order::iterator place;
  };
  std::size_t most_;
  std::map<Key, Entry> entries_;
  Order order_;
};

}  // namespace tern::kernels
