#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

#include "cuda/cost.cuh"
#include "cuda/products/own.cuh"
#include "cuda/tuning/costs.cuh"

namespace tern::cuda::products {
namespace {

using tuning::Costs;

/// Rows, columns and resident blocks of each tile shape (tiles.cuh).
struct Size {
  int rows, columns, resident;
};
constexpr Size sizes[tile_shapes]{{32, 16, 3}, {32, 32, 3}, {64, 32, 2}, {64, 64, 1}, {128, 64, 1}, {128, 128, 1}};
static_assert(tile_shapes == tuning::tiles);

struct Work {
  int tile = 0;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  int split = 1;
};

float cost(const tuning::Tiles& fit, const Work* work, int count) {
  Load loads[2];
  int resident = 8, cluster = 1;
  for (int i = 0; i < count; ++i) {
    const auto& [tile, m, n, k, batch, split] = work[i];
    if (m == 0) continue;
    const tuning::Block& of = fit.of[tile];
    const float share = static_cast<float>(ceil_div(k, split)) / 1000;
    loads[i].blocks =
        static_cast<float>(ceil_div(m, sizes[tile].rows) * ceil_div(n, sizes[tile].columns) * split * batch);
    loads[i].work = of.work_once + of.work_k * share;
    loads[i].wait =
        of.wait_once + of.wait_k * share + (split > 1 ? fit.split + fit.part * static_cast<float>(split) : 0.0f);
    resident = std::min(resident, sizes[tile].resident);
    cluster = std::max(cluster, split);
  }
  const float reached = fit.reached[std::countr_zero(static_cast<unsigned>(cluster))];
  return time_of(loads,
                 {static_cast<float>(card().multiprocessors) * reached, static_cast<float>(resident), 0.26f, 0.498f});
}

const tuning::Tiles& tiles_of(const Costs& costs, const Problem& p) {
  if (!on_tensor_cores(p)) return costs.strict_tiles;
  return p.slot == Slot::linear_backward ? costs.rounded_backward_tiles : costs.rounded_tiles;
}

// Powers of two: other clusters leave multiprocessors empty, because a cluster stays within a group of 16 or 18.
int splits_to_try() { return card().overlap ? largest_split : 1; }

constexpr const char* tile_names[tile_shapes] = {"32x16", "32x32", "64x32", "64x64", "128x64", "128x128"};
const char* split_name(int split) { return split == 1 ? "1" : split == 2 ? "2" : split == 4 ? "4" : "8"; }

/// What is forced, if anything.
struct Forced {
  std::string_view tile, split;
  explicit Forced(const Context& context)
      : tile(forced_algorithm(context, "product_tile")), split(forced_algorithm(context, "product_split")) {}
  bool nothing() const { return tile.empty() && split.empty(); }
  bool allows(int a_tile, int a_split) const {
    return (tile.empty() || tile == tile_names[a_tile]) && (split.empty() || split == split_name(a_split));
  }
};

Tiling took(const Context& context, const Tiling& tiling) {
  took_algorithm(context, "product_tile", tile_names[tiling.tile]);
  took_algorithm(context, "product_split", split_name(std::max(tiling.split, tiling.split_data)));
  return tiling;
}

/// The cheapest of those that `allowed` accepts; its cost is the largest number if there is none.
template <class Allowed>
Tiling find_product(const Costs& costs, const Problem& p, const Allowed& allowed) {
  Tiling best;
  best.cost = std::numeric_limits<float>::max();
  for (int tile = 0; tile < tile_shapes; ++tile) {
    if (!product_exists(tile, row_by_row(p))) continue;
    for (int split = 1; split <= splits_to_try(); split *= 2) {
      if (!allowed(tile, split)) continue;
      const Work work{tile, p.m, p.n, p.k, p.batch, split};
      const float guess = cost(tiles_of(costs, p), &work, 1);
      if (guess < best.cost) best = {tile, split, 0, 1, guess};
    }
  }
  return best;
}

template <class Allowed>
Tiling find_backward(const Costs& costs, const Problem& p, const Allowed& allowed) {
  const bool weight = p.gradients.b != 0, data = p.gradients.a != 0;
  Tiling best;
  best.cost = std::numeric_limits<float>::max();
  for (int tile = 0; tile < tile_shapes; ++tile)
    for (int tile_data = 0; tile_data < tile_shapes; ++tile_data) {
      if (!backward_exists(tile, tile_data)) continue;
      for (int cluster = 1; cluster <= splits_to_try(); cluster *= 2) {
        if (!allowed(tile, cluster)) continue;
        for (int who = cluster == 1 ? 2 : 0; who < 3; ++who) {  // both sums are split, or only one of them
          const int split = who == 1 ? 1 : cluster, split_data = who == 0 ? 1 : cluster;
          const Work work[2] = {{tile, weight ? p.n : 0, p.k, p.m, 1, split},
                                {tile_data, data ? p.m : 0, p.k, p.n, 1, split_data}};
          const float guess = cost(tiles_of(costs, p), work, 2);
          if (guess < best.cost) best = {tile, split, tile_data, split_data, guess};
        }
      }
    }
  return best;
}

/// The cheapest of the forced ones, if any, else of all.
template <class Rule, class Find>
Tiling cheapest(const Context& context, const Problem& problem, const Find& find) {
  if (const Forced forced(context); !forced.nothing()) {
    const Tiling tiling = find([&](int tile, int split) { return forced.allows(tile, split); });
    if (tiling.cost < std::numeric_limits<float>::max()) return took(context, tiling);
  }
  const auto any = [](int, int) { return true; };
  return took(context, remembered<Rule>(problem, [&] { return find(any); }));
}

}  // namespace

Tiling tiling_of(const Context& context, const Problem& problem) {
  struct Rule;
  return cheapest<Rule>(context, problem,
                        [&](const auto& allowed) { return find_product(tuning::costs(), problem, allowed); });
}

Tiling tiling_of_backward(const Context& context, const Problem& problem) {
  struct Rule;
  return cheapest<Rule>(context, problem,
                        [&](const auto& allowed) { return find_backward(tuning::costs(), problem, allowed); });
}

}  // namespace tern::cuda::products
