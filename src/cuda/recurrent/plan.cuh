#pragma once
// How a persistent kernel divides a layer among the multiprocessors, and what a round is expected to cost.

#include <algorithm>

#include "cuda/support.cuh"

namespace tern::cuda::recurrence {

constexpr int most_warps = 8;  ///< of a block, so that a thread has 255 registers

/// The part of the weights that a warp holds, 32 * `vectors` in each lane, and how many sequences it multiplies at once
/// by them: with multiply-adds or on tensor cores.
struct Tile {
  int rows, columns, sequences;
};
constexpr Tile tile_of(int vectors, bool tensor) {
  return tensor ? Tile{32, 32 * vectors, 16} : Tile{8, 128 * vectors, 4};
}

/// Blocks that a card runs at once, one on a multiprocessor, in clusters of 1, 2, 4 and 8.
struct Room {
  static constexpr int kinds = 4;
  int blocks[kinds] = {};
  std::size_t shared = 0;  ///< bytes of a block
};

/// `parts` blocks hold the weights of all units; each of `groups` such sets has its own sequences, which a block takes
/// `tile` at a time. A block finishes `units` units. The `spread` blocks of a cluster share the columns of the weights
/// of all their units: a block reads only its share of the states, and sends the others their parts of the sums. Its
/// warps are `row_warps` by `chunks`, each with a Tile.
struct Plan {
  int units = 0, vectors = 0, spread = 1, row_warps = 0, chunks = 0, parts = 0, groups = 0, tile = 0;
  bool tensor = false;
  int columns = 0;            ///< of a block; zeros behind the last one
  int stride = 0, pitch = 0;  ///< floats between two sequences' states and partial sums; no bank conflicts
  std::size_t shared = 0;
  double cost = 0;  ///< microseconds of a round

  int warps() const { return row_warps * chunks; }
  bool fits() const { return parts > 0; }
  /// Partial sums of a unit, and of each of them two copies where other blocks write the next ones meanwhile.
  __host__ __device__ int partials() const { return spread * chunks; }
  __host__ __device__ int copies() const { return spread > 1 ? 2 : 1; }
};

/// A layer as a plan sees it: `sums` for each unit, of `length` products with the `made` numbers of every unit.
struct Layer {
  std::int64_t batch, width, length;
  int sums, made;
};

inline Plan plan_of(const Layer& layer, int units, int vectors, int kind, bool tensor, const Room& room) {
  Plan plan{.units = units, .vectors = vectors, .spread = 1 << kind, .tensor = tensor};
  const Tile warp = tile_of(vectors, tensor);
  const std::int64_t most_blocks = room.blocks[kind], spread = plan.spread, of_block = units * layer.sums;
  const std::int64_t chunks = ceil_div(ceil_div(layer.length, spread), warp.columns);
  const std::int64_t row_warps = ceil_div(spread * of_block, warp.rows);
  const std::int64_t parts = ceil_div(layer.width, spread * units) * spread;
  if (chunks * row_warps > most_warps || parts > most_blocks) return plan;
  plan.chunks = static_cast<int>(chunks);
  plan.row_warps = static_cast<int>(row_warps);
  plan.columns = plan.chunks * warp.columns;
  plan.stride = plan.columns + 16;
  plan.pitch = static_cast<int>(ceil_div(of_block - 8, 32) * 32 + 8);
  const std::int64_t groups = std::min(layer.batch, most_blocks / parts), own = ceil_div(layer.batch, groups);
  const auto bytes = [&](std::int64_t tile) {
    return static_cast<std::size_t>(tile * (2 * plan.stride + plan.copies() * plan.partials() * plan.pitch)) *
           sizeof(float);
  };
  // A thread finishes at most one item of a tile.
  const std::int64_t least = warp.sequences, items = std::int64_t{plan.warps()} * 32 / units;
  std::int64_t tile = std::max(least, std::min(ceil_div(own, least), items / least) * least);
  while (tile > least && bytes(tile) > room.shared) tile -= least;
  if (tile > items || bytes(tile) > room.shared) return plan;
  plan.tile = static_cast<int>(tile);
  plan.shared = bytes(tile);
  plan.groups = static_cast<int>(groups);
  plan.parts = static_cast<int>(parts);
  // Clocks, fitted to 122 forward passes on an H200, 128 to 1,024 units (benchmarks/results/onnx.md): a round and its
  // tiles, multiplying on the busiest scheduler or the tensor cores, what all blocks read, and the partial sums.
  constexpr double clocks = 1.7e3;  // a microsecond's
  const double turns = static_cast<double>(ceil_div(own, least)), tiles = static_cast<double>(ceil_div(own, tile));
  const double warps_in_turn = (plan.warps() + 3) / 4;
  const double product = tensor     ? 1900 + turns * plan.warps() * (40 * vectors + 80)
                         : own == 1 ? warps_in_turn * 170 * vectors
                                    : turns * warps_in_turn * (115 * vectors + 480);  // with the sums over lanes
  const double read = static_cast<double>(own * std::min<std::int64_t>(layer.length, plan.columns) * parts * groups);
  const double sent = spread > 1 ? static_cast<double>(own * of_block * chunks * spread) : 0;
  const double partial = tiles * plan.partials() * layer.sums;
  plan.cost =
      (2850 + (spread > 1 ? 1180 : 720) * tiles + product + 0.0019 * read + 0.9 * sent + 5.5 * partial) / clocks;
  return plan;
}

/// The cheapest with or without clusters, if any fits.
inline Plan plan_of(const Layer& layer, bool clusters, bool tensor, const Room& room) {
  Plan best;
  for (int kind = clusters ? 1 : 0; kind < (clusters ? Room::kinds : 1); ++kind)
    for (const int units : {8, 16, 32})
      for (const int vectors : {1, 2, 4})
        for (int on_tensor = 0; on_tensor <= (tensor ? 1 : 0); ++on_tensor) {
          const Plan plan = plan_of(layer, units, vectors, kind, on_tensor != 0, room);
          if (plan.fits() && (!best.fits() || plan.cost < best.cost)) best = plan;
        }
  return best;
}

/// A layer whose weights one block or cluster of `spread` blocks holds, so that nothing passes through memory from
/// round to round. A thread has the weights between one of its block's `units` units and `others` more, and finishes an
/// item; `chunks` threads share a unit. A block takes `tile` sequences at a time, at most one for each of those
/// threads.
struct ClusterPlan {
  static constexpr int others = 32;
  static constexpr std::size_t item_bytes = 32;   ///< of what an item reads, at most
  static constexpr std::size_t other_bytes = 16;  ///< of the barriers
  /// Of a block: a thread has `weights` times `others` of its registers for weights, and some for the rest.
  static constexpr int threads_of(int weights) { return weights > 3 ? 256 : 512; }

  int units = 0, spread = 0, chunks = 0, tile = 0, clusters = 0;
  int stride = 0;  ///< floats between two sequences' states
  std::size_t shared = 0;
  double cost = 0;  ///< microseconds of a round

  bool fits() const { return clusters > 0; }
};

inline ClusterPlan cluster_plan_of(const Layer& layer, int kind, const Room& room) {
  ClusterPlan plan{.spread = 1 << kind};
  const int weights = layer.sums * layer.made, threads = ClusterPlan::threads_of(weights);
  const std::int64_t units = ceil_div(layer.width, plan.spread), chunks = ceil_div(layer.width, ClusterPlan::others);
  const std::int64_t most = room.blocks[kind] / plan.spread;
  if (units * chunks > threads || most == 0) return plan;
  plan.units = static_cast<int>(units);
  plan.chunks = static_cast<int>(chunks);
  plan.stride = plan.chunks * ClusterPlan::others * layer.made + 4;
  std::int64_t tile = std::min(ceil_div(layer.batch, most), threads / units);
  const auto bytes = [&] {
    return static_cast<std::size_t>(tile * (2 * plan.stride + chunks * units * layer.sums)) * sizeof(float) +
           static_cast<std::size_t>(threads) * ClusterPlan::item_bytes + ClusterPlan::other_bytes;
  };
  while (tile > 0 && bytes() > room.shared) --tile;
  if (tile == 0) return plan;
  plan.tile = static_cast<int>(tile);
  plan.shared = bytes();
  plan.clusters = static_cast<int>(std::min(most, ceil_div(layer.batch, tile)));
  // Clocks, estimated: what a round waits for (a unit's functions, its sums, the cluster), and the multiply-adds.
  const double turns = static_cast<double>(ceil_div(layer.batch, plan.clusters * tile));
  const double warps = static_cast<double>(ceil_div(units * chunks, 32));
  const double product = static_cast<double>(tile) * warps / 4 * (ClusterPlan::others * weights + 40);
  plan.cost = turns *
              (900 + product + 8.0 * static_cast<double>(chunks) + (plan.spread > 1 ? 700 + 20 * plan.spread : 0)) /
              1.7e3;
  return plan;
}

/// The cheapest, if any fits.
inline ClusterPlan cluster_plan_of(const Layer& layer, const Room& room) {
  ClusterPlan best;
  for (int kind = 0; kind < Room::kinds; ++kind) {
    const ClusterPlan plan = cluster_plan_of(layer, kind, room);
    if (plan.fits() && (!best.fits() || plan.cost < best.cost)) best = plan;
  }
  return best;
}

}  // namespace tern::cuda::recurrence
