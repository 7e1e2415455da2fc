#pragma once
// The cost model of the rules.

#include <algorithm>
#include <cmath>
#include <span>

namespace tern::cuda {

/// Equal blocks of a launch: their number, the share of a busy multiprocessor that one takes, and its minimum time on
/// an idle card, both in microseconds.
struct Load {
  float blocks = 0, work = 0, wait = 0;
};

/// The number of multiprocessors and blocks per multiprocessor; the fraction of a wait that other work does not hide,
/// and the fraction that each further round of blocks costs.
struct Occupancy {
  float multiprocessors, resident, exposed, again;
};

/// Microseconds for blocks spread over the multiprocessors: the fullest one decides, and no block is faster than its
/// own waits.
inline float time_of(std::span<const Load> loads, const Occupancy& occupancy) {
  float blocks = 0, work = 0, slowest = 0;
  for (const Load& load : loads) {
    if (load.blocks == 0) continue;
    blocks += load.blocks;
    work += load.blocks * load.work;
    slowest = std::max(slowest, load.wait);
  }
  if (blocks == 0) return 0;
  const float fullest = std::ceil(blocks / occupancy.multiprocessors) * work / blocks;
  const float rounds = std::ceil(blocks / (occupancy.multiprocessors * occupancy.resident));
  return std::max(fullest + slowest * occupancy.exposed, slowest * (1 + occupancy.again * (rounds - 1)));
}

}  // namespace tern::cuda
