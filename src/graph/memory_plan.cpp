#include "graph/memory_plan.hpp"

#include <algorithm>
#include <numeric>

namespace tern::graph {

MemoryPlan plan_memory(const std::vector<Lifetime>& blocks) {
  constexpr std::size_t alignment = 64;
  const auto rounded = [](std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  MemoryPlan plan{std::vector<std::size_t>(blocks.size()), 0};
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : order) {
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      if (blocks[other].end <= blocks[i].begin || blocks[i].end <= blocks[other].begin) continue;
      if (offset + rounded(blocks[i].bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + rounded(blocks[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + rounded(blocks[i].bytes));
    placed.insert(std::ranges::upper_bound(placed, offset, {}, [&](std::size_t other) { return plan.offsets[other]; }),
                  i);
  }
  return plan;
}

}  // namespace tern::graph
