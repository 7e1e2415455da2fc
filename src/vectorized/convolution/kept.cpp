#include "vectorized/convolution/kept.hpp"

#include <unistd.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <tuple>
#include <utility>

namespace tern::vectorized::convolution {
namespace {

constexpr std::align_val_t alignment{64};
constexpr std::size_t most_entries = 4096;  // notes included

struct Key {
  kernels::WeightVersion version;
  Problem problem;
  std::string algorithm;
  std::size_t bytes;  ///< of what is derived: `depthwise` has two plans, by whether its padding may be skipped

  bool operator<(const Key& other) const {
    if (version < other.version) return true;
    if (other.version < version) return false;
    return std::tie(problem, algorithm, bytes) < std::tie(other.problem, other.algorithm, other.bytes);
  }
};

std::size_t usual_limit() {
  constexpr std::size_t most = std::size_t{1} << 30;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return most / 4;
  return std::min(most, static_cast<std::size_t>(pages) / 8 * static_cast<std::size_t>(page));
}

class Store {
 public:
  static Store& all() {
    static auto* const store = new Store;  // leaked: threads may outlive static objects
    return *store;
  }

  Kept find(const Key& key) {
    const std::size_t bytes = key.bytes;
    const std::scoped_lock lock(mutex_);
    ++calls_;
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      forget_older(key);
      if (entries_.size() >= most_entries) drop(entries_.find(*order_.back()));
      const auto made = entries_.emplace(key, Entry{}).first;
      made->second.place = order_.insert(order_.begin(), &made->first);
      return {};
    }
    Entry& entry = found->second;
    entry.used = calls_;
    order_.splice(order_.begin(), order_, entry.place);
    if (entry.ready) {
      ++found_;
      return {entry.data, bytes, true};
    }
    if (entry.data != nullptr || bytes == 0 || !make_room(bytes, most_entries)) return {};
    void* const memory = ::operator new(bytes, alignment, std::nothrow);
    if (memory == nullptr) return {};
    entry.data.reset(memory, [](void* pointer) { ::operator delete(pointer, alignment); });
    entry.bytes = bytes;
    bytes_ += bytes;
    return {entry.data, bytes, false};
  }

  void ready(const Key& key, const Kept& kept) {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end() && found->second.data == kept.data) found->second.ready = true;
  }

  KeptCount count() {
    const std::scoped_lock lock(mutex_);
    KeptCount count{.bytes = bytes_, .found = found_};
    for (const auto& [key, entry] : entries_) count.arrays += entry.ready;
    return count;
  }

  std::size_t limit(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const std::size_t before = std::exchange(limit_, bytes);
    make_room(0, 0);
    return before;
  }

 private:
  struct Entry {
    std::shared_ptr<void> data;
    std::size_t bytes = 0;
    bool ready = false;
    std::uint64_t used = 0;  // at which call
    std::list<const Key*>::iterator place;
  };
  using Entries = std::map<Key, Entry>;

  Entries::iterator drop(Entries::iterator entry) {
    bytes_ -= entry->second.bytes;
    order_.erase(entry->second.place);
    return entries_.erase(entry);
  }

  /// Entries of other versions of these weights, and of weights that are gone.
  void forget_older(const Key& key) {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto& storage = entry->first.version.storage;
      const bool same = !storage.owner_before(key.version.storage) && !key.version.storage.owner_before(storage);
      entry = entry->first.version.expired() || (same && entry->first.version.version != key.version.version)
                  ? drop(entry)
                  : std::next(entry);
    }
  }

  /// Evicts least recently used entries until `bytes` more fit; false if they do not. Recently used entries stay:
  /// otherwise a network larger than the bound would evict each array just before its use.
  bool make_room(std::size_t bytes, std::uint64_t lately) {
    if (bytes > limit_) return false;
    for (auto place = order_.end(); place != order_.begin() && bytes_ + bytes > limit_;) {
      const auto entry = entries_.find(**--place);
      if (entry->second.bytes == 0) continue;  // a note
      if (calls_ - entry->second.used < lately) return false;
      ++place;
      drop(entry);
    }
    return bytes_ + bytes <= limit_;
  }

  std::mutex mutex_;
  Entries entries_;
  std::list<const Key*> order_;  // most recently used first
  std::uint64_t calls_ = 0;
  std::size_t bytes_ = 0, found_ = 0, limit_ = usual_limit();
};

}  // namespace

// What a recorded call has found once is its own from then on.
Kept kept_weights(const kernels::WeightVersion& version, const Problem& problem, std::string_view algorithm,
                  std::size_t bytes) {
  kernels::DerivedWeights* const own = kernels::derived_weights;
  if (own == nullptr) return Store::all().find({version, problem, std::string(algorithm), bytes});
  const std::size_t number = own->next++;
  if (number == own->arrays.size()) own->arrays.push_back({algorithm, bytes});
  auto& array = own->arrays[number];
  if (array.data != nullptr && array.algorithm == algorithm && array.bytes == bytes) return {array.data, bytes, true};
  Kept found = Store::all().find({version, problem, std::string(algorithm), bytes});
  if (found.ready) array = {algorithm, bytes, found.data};
  return found;
}

void keep(const kernels::WeightVersion& version, const Problem& problem, std::string_view algorithm, const Kept& kept) {
  Store::all().ready({version, problem, std::string(algorithm), kept.bytes}, kept);
}

KeptCount kept_count() { return Store::all().count(); }

std::size_t limit_kept(std::size_t bytes) { return Store::all().limit(bytes); }

}  // namespace tern::vectorized::convolution
