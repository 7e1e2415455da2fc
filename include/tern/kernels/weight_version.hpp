#pragma once
// Which weights a kernel reads, where its caller knows that they stay as they are for a while.

#include <cstdint>
#include <memory>

namespace tern::kernels {

/// Two weights of one version have equal elements: a mode may keep what it makes of them (packed, transformed) under
/// this and everything else that it is made from. It does not hold the elements alive.
struct WeightVersion {
  std::weak_ptr<const void> storage;  ///< by its owner, which no later storage has
  std::uint64_t version = 0;          ///< grows with every change
  std::int64_t offset = 0;            ///< of the first weight, in elements

  bool operator<(const WeightVersion& other) const {
    if (storage.owner_before(other.storage)) return true;
    if (other.storage.owner_before(storage)) return false;
    return version != other.version ? version < other.version : offset < other.offset;
  }
};

/// Of the kernel that the calling thread runs; null: not known, or not worth keeping anything.
inline thread_local const WeightVersion* weight_version = nullptr;

}  // namespace tern::kernels
