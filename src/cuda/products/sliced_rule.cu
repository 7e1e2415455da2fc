#include <algorithm>
#include <iterator>
#include <string_view>

#include "cuda/products/sliced.cuh"
#include "cuda/products/slots.cuh"

namespace tern::cuda::products {

// ---- where they fit, and where they are fastest ----

namespace {

bool whole(std::uint32_t alignment) { return alignment == 0 || alignment >= 16; }
bool fits_card(const Problem& p) {
  return p.in == Element::float32 && p.batch == 1 && p.k > 0 && p.k % 4 == 0 && whole(p.inputs.a) &&
         whole(p.inputs.b) && (p.precision == Precision::strict ? card().doubles : card().code >= 80);
}

}  // namespace

bool fits_sliced(const Problem& p) { return fits_card(p) && row_by_row(p) && fits_tiles(p.m, p.n, p.k, 1); }
bool fits_sliced_backward(const Problem& p) {
  return fits_card(p) && fits_tiles(p.m, p.k, p.n, 1) && fits_tiles(p.n, p.k, p.m, 1);
}

bool prefers_sliced(const Problem& p) {
  if (p.precision == Precision::strict) return p.work() <= 6e8;
  return p.work() <= (p.m <= 128 ? 1.4e8 : p.m <= 512 ? 1e8 : 4e7);  // of many rows the library reads less
}
// Whether the incoming gradient and the activation's output can be read in packs; else single elements are read.
static bool in_packs(const Problem& p) { return p.n % 4 == 0 && whole(p.gradients.out) && whole(p.inputs.out); }
bool prefers_sliced_backward(const Problem& p) {
  if (!in_packs(p)) return p.work() <= 1.1e6;
  const bool weight_alone = p.gradients.a == 0;
  if (p.precision == Precision::strict) return p.work() <= (weight_alone ? 2e8 : 1.6e8);
  if (weight_alone) return p.work() <= (p.m <= 128 ? 3e7 : 8e7);
  return p.work() <= (p.m <= 128 ? 8e7 : 4e7);
}

// ---- the shapes ----

namespace {

// Rows x columns of a block's tiles / warps per tile (/ slices per warp); for the weight's gradient and x's.
constexpr const char* forward_names[]{"16x16/16/1", "16x16/16/4", "16x16/8/2", "16x32/8/2",
                                      "32x32/16/1", "32x32/8/2",  "16x64/4/2", "32x128/4/1"};
constexpr const char* backward_names[]{"16x32/8+16x16/8",   "16x32/8+16x32/8", "16x64/4+16x32/8", "16x128/2+16x16/8",
                                       "16x32/16+16x16/16", "32x32/8+16x32/8", "32x64/4+16x32/8", "32x128/2+16x32/8"};
static_assert(std::size(forward_names) == tuning::forward_slices);
static_assert(std::size(backward_names) == tuning::backward_slices);

/// The forced one, else the cheapest of the first `count`. If factors may be read as TF32, doubles win for
/// latency-bound sizes; they need a card that supports them.
template <class Key, std::size_t Count, class Find>
Slices chosen_of(const Context& context, const char* decision, const char* const (&names)[Count], int count,
                 const Problem& problem, const Find& find) {
  const std::string_view factors = forced_algorithm(context, "slice_factors");
  const bool may_round = problem.precision != Precision::strict;
  SlicesAllowed allowed{0, count, card().doubles && !(factors == "tf32" && may_round),
                        may_round && !(factors == "doubles" && card().doubles)};
  int forced = count;
  if (const std::string_view name = forced_algorithm(context, decision); !name.empty())
    forced = static_cast<int>(std::find(std::begin(names), std::end(names), name) - std::begin(names));
  if (forced < count) allowed.first = forced, allowed.end = forced + 1;
  const auto cheapest = [&](const tuning::Costs& costs) {
    return find(tuning::figures(), costs, sizes_of(problem), allowed);
  };
  const bool free = forced >= count && factors.empty();
  const Slices chosen = free || tuning::Watch::current() != nullptr
                            ? tuning::cut_of<Key>(problem, problem.rule, cheapest)
                            : cheapest(tuning::costs(problem.rule));
  tuning::took_rule(context, problem.rule);
  took_algorithm(context, decision, names[chosen.shape]);
  took_algorithm(context, "slice_factors", chosen.doubles ? "doubles" : "tf32");
  return chosen;
}

}  // namespace

Slices slices_of(const Context& context, const Problem& problem) {
  struct Key;
  return chosen_of<Key>(context, "product_slices", forward_names, tuning::forward_slices, problem, find_slices);
}

Slices slices_of_backward(const Context& context, const Problem& problem) {
  struct Key;
  return chosen_of<Key>(context, "backward_slices", backward_names, in_packs(problem) ? tuning::backward_slices : 1,
                        problem, find_backward_slices);
}

}  // namespace tern::cuda::products
