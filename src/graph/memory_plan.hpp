#pragma once
// Where the intermediate results of a program lie in one block of memory: two that are never needed at one time may
// share a place.

#include <cstddef>
#include <vector>

namespace tern::graph {

/// A block of a program: its size, and from which event to which it is needed.
struct Lifetime {
  std::size_t bytes = 0;
  std::size_t begin = 0, end = 0;  ///< in events; `end` is the first at which it is free
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  ///< of each block, a multiple of 64
  std::size_t bytes = 0;             ///< of all
};

/// The largest blocks first, each at the lowest place that is free while it is needed.
MemoryPlan plan_memory(const std::vector<Lifetime>& blocks);

}  // namespace tern::graph
