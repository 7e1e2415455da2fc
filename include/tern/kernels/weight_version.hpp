#pragma once
// Identifies the weights that a kernel reads, when the caller knows that they stay unchanged for a while.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace tern::kernels {

/// Two weights with one version have equal elements. A mode may cache what it derives from them (packed, transformed
/// weights); the cache key also holds every other input. It does not keep the elements alive.
struct WeightVersion {
  std::weak_ptr<const void> storage;     ///< identifies the storage: no later storage shares this owner
  std::uint64_t version = 0;             ///< grows with every change
  std::int64_t offset = 0;               ///< of the first weight, in elements
  std::vector<WeightVersion> more = {};  ///< of the other weights of a kernel that reads several

  bool operator<(const WeightVersion& other) const {
    if (storage.owner_before(other.storage)) return true;
    if (other.storage.owner_before(storage)) return false;
    if (version != other.version) return version < other.version;
    if (offset != other.offset) return offset < other.offset;
    return std::lexicographical_compare(more.begin(), more.end(), other.more.begin(), other.more.end());
  }
  /// Whether one of the storages is gone.
  bool expired() const {
    return storage.expired() || std::ranges::any_of(more, [](const WeightVersion& each) { return each.expired(); });
  }
};

/// What the kernels of one recorded call have derived from their weights, in the order in which they ask for it. Its
/// owner calls again and again with the same sizes, and needs no cache to find it.
struct DerivedWeights {
  struct Array {
    std::string_view algorithm;  ///< lives as long as the process
    std::size_t bytes = 0;
    std::shared_ptr<void> data = {};  ///< null: nothing yet
  };
  std::vector<Array> arrays = {};
  std::size_t next = 0;  ///< the next one in this call; 0 at its beginning
};

/// Of the kernel that the calling thread runs; null: it is not recorded.
inline constinit thread_local DerivedWeights* derived_weights = nullptr;

/// The weights of the kernel that the calling thread runs. Null: unknown, or not worth caching.
inline thread_local const WeightVersion* weight_version = nullptr;

/// The storages that do not change as long as what the calling thread records is replayed. Null: none is known.
inline constinit thread_local const std::vector<const void*>* lasting_storages = nullptr;

/// Whether the weights of the kernel that the calling thread runs are among them.
inline bool weights_last() {
  return lasting_storages != nullptr && weight_version != nullptr &&
         std::ranges::find(*lasting_storages, weight_version->storage.lock().get()) != lasting_storages->end();
}

}  // namespace tern::kernels
