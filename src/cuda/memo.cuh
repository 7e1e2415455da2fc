#pragma once
// Values under a key, of which only so many are kept.

#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace tern::cuda {

/// At most `most` values; for one more, the one that was found longest ago is forgotten. Not for several threads at
/// once.
template <class Key, class Value>
class Memo {
 public:
  explicit Memo(std::size_t most = 1024) : most_(most) {}

  /// Null where there is none; valid until the next keep().
  const Value* find(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second.place);
    return &found->second.value;
  }
  /// What is there already stays.
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
  /// Whether one more makes it forget another.
  bool full() const { return entries_.size() >= most_; }
  std::size_t size() const { return entries_.size(); }
  /// Calls use(key, value) for all, in the order of the keys.
  template <class Use>
  void each(const Use& use) const {
    for (const auto& [key, entry] : entries_) use(key, entry.value);
  }

 private:
  using Order = std::list<const Key*>;  // the last found first
  struct Entry {
    Value value;
    typename Order::iterator place;
  };
  std::size_t most_;
  std::map<Key, Entry> entries_;
  Order order_;
};

}  // namespace tern::cuda
