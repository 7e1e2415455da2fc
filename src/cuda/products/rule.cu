#include <string_view>

#include "cuda/products/own.cuh"

namespace tern::cuda::products {
namespace {

const tuning::Tiles& tiles_of(const tuning::Costs& costs, const Problem& p) {
  if (!on_tensor_cores(p)) return costs.strict_tiles;
  return p.slot == Slot::linear_backward ? costs.rounded_backward_tiles : costs.rounded_tiles;
}

constexpr const char* tile_names[tuning::tiles] = {"32x16", "32x32", "64x32", "64x64", "128x64", "128x128"};
constexpr const char* split_names[] = {"1", "2", "4", "8"};
const char* split_name(int split) { return split_names[split == 1 ? 0 : split == 2 ? 1 : split == 4 ? 2 : 3]; }

/// The bit of a name, or all bits if nothing is forced.
template <std::size_t Count>
unsigned bits(std::string_view forced, const char* const (&names)[Count]) {
  for (unsigned i = 0; i < Count; ++i)
    if (forced == names[i]) return 1u << i;
  return ~0u;
}

Tiling took(const Context& context, const Problem& problem, const Tiling& tiling) {
  tuning::took_rule(context, problem.rule);
  took_algorithm(context, "product_tile", tile_names[tiling.tile]);
  took_algorithm(context, "product_split", split_name(std::max(tiling.split, tiling.split_data)));
  return tiling;
}

/// The cheapest of the forced ones, if any, else of all.
template <class Key, class Find>
Tiling cheapest(const Context& context, const Problem& problem, const Find& find) {
  const std::string_view tile = forced_algorithm(context, "product_tile"),
                         split = forced_algorithm(context, "product_split");
  if (!tile.empty() || !split.empty()) {
    const Tiling tiling = find(tuning::costs(problem.rule), Allowed{bits(tile, tile_names), bits(split, split_names)});
    if (tiling.cost < std::numeric_limits<float>::max()) return took(context, problem, tiling);
  }
  return took(context, problem, tuning::cut_of<Key>(problem, problem.rule, [&](const tuning::Costs& costs) {
                return find(costs, Allowed{});
              }));
}

}  // namespace

Sizes sizes_of(const Problem& p) {
  return {p.m, p.n, p.k, p.batch, row_by_row(p), on_tensor_cores(p), p.gradients.b != 0, p.gradients.a != 0};
}

Tiling tiling_of(const Context& context, const Problem& problem) {
  struct Key;
  return cheapest<Key>(context, problem, [&](const tuning::Costs& costs, const Allowed& allowed) {
    return find_tiling(tuning::figures(), tiles_of(costs, problem), sizes_of(problem), allowed);
  });
}

Tiling tiling_of_backward(const Context& context, const Problem& problem) {
  struct Key;
  return cheapest<Key>(context, problem, [&](const tuning::Costs& costs, const Allowed& allowed) {
    return find_backward_tiling(tuning::figures(), tiles_of(costs, problem), sizes_of(problem), allowed);
  });
}

}  // namespace tern::cuda::products
