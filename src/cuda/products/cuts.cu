#include <bit>

#include "cuda/cost.cuh"
#include "cuda/products/cuts.cuh"

namespace tern::cuda::products {
namespace {

using tuning::Figures;
using tuning::tile_sizes;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// ---- tiles ----

struct Work {
  int tile = 0;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  int split = 1;
};

float cost(const Figures& on, const tuning::Tiles& costs, const Work* work, int count) {
  Load loads[2];
  int resident = 8, cluster = 1;
  for (int i = 0; i < count; ++i) {
    const auto& [tile, m, n, k, batch, split] = work[i];
    if (m == 0) continue;
    const tuning::Block& of = costs.of[tile];
    const tuning::TileSize& size = tile_sizes[tile];
    const float share = static_cast<float>(ceil_div(k, split)) / 1000;
    loads[i].blocks = static_cast<float>(ceil_div(m, size.rows) * ceil_div(n, size.columns) * split * batch);
    loads[i].work = of.work_once + of.work_k * share;
    loads[i].wait =
        of.wait_once + of.wait_k * share + (split > 1 ? costs.split + costs.part * static_cast<float>(split) : 0.0f);
    resident = std::min(resident, size.resident);
    cluster = std::max(cluster, split);
  }
  const float reached = costs.reached[std::countr_zero(static_cast<unsigned>(cluster))];
  return time_of(loads,
                 {static_cast<float>(on.multiprocessors) * reached, static_cast<float>(resident), 0.26f, 0.498f});
}

// Powers of two: other clusters leave multiprocessors empty, because a cluster stays within a group of 16 or 18.
int splits_to_try(const Figures& on) { return on.clusters ? largest_split : 1; }

bool allows(const Allowed& allowed, int tile, int split) {
  return (allowed.tiles >> tile & 1) != 0 &&
         (allowed.splits >> std::countr_zero(static_cast<unsigned>(split)) & 1) != 0;
}

bool fits(const Figures& on, int tile) { return tile_sizes[tile].shared <= on.shared_per_block; }

Tiling with_cost(const tuning::Search<Tiling>& search) {
  Tiling best = search.best();
  best.cost = search.least();
  return best;
}

}  // namespace

bool tile_exists(const Figures& on, int tile, bool by_rows) {
  // The other layouts only come from matmul: two tile shapes are enough for them.
  return fits(on, tile) && (by_rows || tile == 1 || tile == 3);
}

bool pair_exists(const Figures& on, int tile, int tile_data) {
  const int pair = tile * 10 + tile_data;
  for (const int compiled : {10, 11, 20, 21, 22, 31, 32, 33, 44})
    if (pair == compiled) return fits(on, tile) && fits(on, tile_data);
  return false;
}

Tiling find_tiling(const Figures& on, const tuning::Tiles& costs, const Sizes& p, const Allowed& allowed) {
  tuning::Search<Tiling> search;
  for (int tile = 0; tile < tuning::tiles; ++tile) {
    if (!tile_exists(on, tile, p.by_rows)) continue;
    for (int split = 1; split <= splits_to_try(on); split *= 2) {
      if (!allows(allowed, tile, split)) continue;
      const Work work{tile, p.m, p.n, p.k, p.batch, split};
      search.offer({tile, split, 0, 1, 0}, cost(on, costs, &work, 1));
    }
  }
  return with_cost(search);
}

Tiling find_backward_tiling(const Figures& on, const tuning::Tiles& costs, const Sizes& p, const Allowed& allowed) {
  tuning::Search<Tiling> search;
  for (int tile = 0; tile < tuning::tiles; ++tile)
    for (int tile_data = 0; tile_data < tuning::tiles; ++tile_data) {
      if (!pair_exists(on, tile, tile_data)) continue;
      for (int cluster = 1; cluster <= splits_to_try(on); cluster *= 2) {
        if (!allows(allowed, tile, cluster)) continue;
        for (int who = cluster == 1 ? 2 : 0; who < 3; ++who) {  // both sums are split, or only one of them
          const int split = who == 1 ? 1 : cluster, split_data = who == 0 ? 1 : cluster;
          const Work work[2] = {{tile, p.weight ? p.n : 0, p.k, p.m, 1, split},
                                {tile_data, p.data ? p.m : 0, p.k, p.n, 1, split_data}};
          search.offer({tile, split, tile_data, split_data, 0}, cost(on, costs, work, 2));
        }
      }
    }
  return with_cost(search);
}

// ---- slices ----

namespace {

Load load_of(const tuning::Block& of, const tuning::SliceSize& size, std::int64_t m, std::int64_t n, std::int64_t k) {
  const float thousands = static_cast<float>(k) / 1000;
  const std::int64_t blocks = ceil_div(m, size.rows) * ceil_div(n, size.all_columns());
  return {static_cast<float>(blocks), of.work_once + of.work_k * thousands, of.wait_once + of.wait_k * thousands};
}

Occupancy occupancy_of(const Figures& on, float resident, float exposed, float again) {
  return {static_cast<float>(on.multiprocessors), resident, exposed, again};
}

float forward_cost(const Figures& on, const tuning::Slices& costs, const Sizes& p, int shape) {
  const Load load = load_of(costs.of[shape], tuning::forward_sizes[shape], p.m, p.n, p.k);
  return time_of({&load, 1}, occupancy_of(on, costs.resident[shape], costs.exposed, costs.again));
}

float backward_cost(const Figures& on, const tuning::SlicePairs& costs, const Sizes& p, int shape) {
  Load loads[2];
  if (p.weight) loads[0] = load_of(costs.weight[shape], tuning::weight_sizes[shape], p.n, p.k, p.m);
  if (p.data) loads[1] = load_of(costs.data[shape], tuning::data_sizes[shape], p.m, p.k, p.n);
  return time_of(loads, occupancy_of(on, costs.resident[shape], costs.exposed, costs.again));
}

template <class Cost>
Slices cheapest(const SlicesAllowed& allowed, const Cost& cost_of) {
  tuning::Search<Slices> search;
  for (int shape = allowed.first; shape < allowed.end; ++shape)
    for (const bool doubles : {true, false})
      if (doubles ? allowed.doubles : allowed.tf32) search.offer({shape, doubles}, cost_of(shape, doubles));
  return search.best();
}

}  // namespace

Slices find_slices(const Figures& on, const tuning::Costs& costs, const Sizes& p, const SlicesAllowed& allowed) {
  return cheapest(allowed, [&](int shape, bool doubles) {
    return forward_cost(on, doubles ? costs.strict_slices : costs.rounded_slices, p, shape);
  });
}

Slices find_backward_slices(const Figures& on, const tuning::Costs& costs, const Sizes& p,
                            const SlicesAllowed& allowed) {
  return cheapest(allowed, [&](int shape, bool doubles) {
    return backward_cost(on, doubles ? costs.strict_pairs : costs.rounded_pairs, p, shape);
  });
}

}  // namespace tern::cuda::products
