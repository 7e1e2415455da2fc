#pragma once
// How a persistent kernel divides a layer among the multiprocessors, and what a round is expected to cost.

#include <algorithm>

#include "cuda/support.cuh"

namespace tern::cuda::recurrence {

constexpr int warp_rows = 8;   ///< rows of the weights that a warp holds
constexpr int most_warps = 8;  ///< of a block, so that a thread has 255 registers
constexpr int vector = 4;

/// Blocks that a card runs at once, one on a multiprocessor, in clusters of 1, 2, 4 and 8.
struct Room {
  static constexpr int kinds = 4;
  int blocks[kinds] = {};
  std::size_t shared = 0;  ///< bytes of a block
};

/// `parts` blocks hold the weights of all units; each of `groups` such sets has its own sequences, which a block takes
/// `tile` at a time. A block finishes `units` units. The `spread` blocks of a cluster share the columns of the weights
/// of all their units: a block reads only its share of the states, and sends the others their parts of the sums. Its
/// warps are `row_warps` by `chunks`, each with 8 rows and 128 * `vectors` columns.
struct Plan {
  int units = 0, vectors = 0, spread = 1, row_warps = 0, chunks = 0, parts = 0, groups = 0, tile = 0;
  int columns = 0;  ///< of a block, and of a tile's row: zeros behind the last one
  int pitch = 0;    ///< floats between two sequences' partial sums
  std::size_t shared = 0;
  double cost = 0;  ///< microseconds of a round

  int warps() const { return row_warps * chunks; }
  bool fits() const { return parts > 0; }
  /// Partial sums of a unit, and of each of them two copies where other blocks write the next ones meanwhile.
  __host__ __device__ int partials() const { return spread * chunks; }
  __host__ __device__ int copies() const { return spread > 1 ? 2 : 1; }
};

inline Plan plan_of(std::int64_t batch, std::int64_t width, int sums, std::int64_t length, int units, int vectors,
                    int kind, const Room& room) {
  Plan plan{.units = units, .vectors = vectors, .spread = 1 << kind};
  const std::int64_t of_warp = 32 * vector * vectors, most_blocks = room.blocks[kind], spread = plan.spread;
  const std::int64_t chunks = ceil_div(ceil_div(length, spread), of_warp);
  const std::int64_t row_warps = ceil_div(spread * units * sums, warp_rows);
  const std::int64_t parts = ceil_div(width, spread * units) * spread;
  if (chunks * row_warps > most_warps || parts > most_blocks) return plan;
  plan.chunks = static_cast<int>(chunks);
  plan.row_warps = static_cast<int>(row_warps);
  plan.columns = static_cast<int>(chunks * of_warp);
  plan.pitch = (units * sums + 31 - warp_rows) / 32 * 32 + warp_rows;  // no two of four sequences share a bank
  const std::int64_t groups = std::min(batch, most_blocks / parts), own = ceil_div(batch, groups);
  const auto bytes = [&](std::int64_t tile) {
    return static_cast<std::size_t>(tile * (2 * plan.columns + plan.copies() * plan.partials() * plan.pitch)) *
           sizeof(float);
  };
  // A thread finishes at most one item of a tile.
  std::int64_t tile = std::max<std::int64_t>(4, std::min(ceil_div(own, 4), std::int64_t{plan.warps() * 8 / units}) * 4);
  while (tile > 4 && bytes(tile) > room.shared) tile -= 4;
  if (tile * units > plan.warps() * 32 || bytes(tile) > room.shared) return plan;
  plan.tile = static_cast<int>(tile);
  plan.shared = bytes(tile);
  plan.groups = static_cast<int>(groups);
  plan.parts = static_cast<int>(parts);
  // Multiply-adds of the busiest scheduler, and reading the states: by this block, and by all of them.
  constexpr double clocks = 1.7e3;  // a microsecond's
  const auto multiplied = static_cast<double>(own == 1 ? 1 : ceil_div(own, 4) * 4);
  const double product = multiplied * static_cast<double>(ceil_div(plan.warps(), 4) * warp_rows * vectors * vector);
  const double read = static_cast<double>(own * std::min<std::int64_t>(length, plan.columns)) * sizeof(float);
  const double reads = std::max(read / 48, read * static_cast<double>(parts * groups) / 3000);
  const double tiles = static_cast<double>(ceil_div(own, tile));
  plan.cost =
      (2200 + (spread > 1 ? 550 : 250) * tiles + std::max(product, reads) + std::min(product, reads) / tiles) / clocks;
  return plan;
}

/// The cheapest, if any fits. The costs were fitted on an H100 (benchmarks/recurrent.cpp).
inline Plan plan_of(std::int64_t batch, std::int64_t width, int sums, std::int64_t length, const Room& room) {
  Plan best;
  for (int kind = 0; kind < Room::kinds; ++kind)
    for (const int units : {8, 16, 32})
      for (const int vectors : {1, 2, 4}) {
        const Plan plan = plan_of(batch, width, sums, length, units, vectors, kind, room);
        if (plan.fits() && (!best.fits() || plan.cost < best.cost)) best = plan;
      }
  return best;
}

}  // namespace tern::cuda::recurrence
