#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>

#include "cuda/cost.cuh"
#include "cuda/products/sliced_shapes.cuh"
#include "cuda/products/slots.cuh"
#include "cuda/tuning/costs.cuh"

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

bool prefers_sliced(const Problem& p) { return p.work() <= (p.precision == Precision::strict ? 6e8 : 1.4e8); }
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

Load load_of(const tuning::Block& of, std::int64_t blocks, std::int64_t k) {
  const float thousands = static_cast<float>(k) / 1000;
  return {static_cast<float>(blocks), of.work_once + of.work_k * thousands, of.wait_once + of.wait_k * thousands};
}

using tuning::Costs;
static_assert(forward_shapes == tuning::forward_slices && backward_shapes == tuning::backward_slices);

Occupancy occupancy_of(float resident, float exposed, float again) {
  return {static_cast<float>(card().multiprocessors), resident, exposed, again};
}

template <bool Doubles>
float forward_cost(const Costs& costs, const Problem& p, int number) {
  const tuning::Slices& fit = Doubles ? costs.strict_slices : costs.rounded_slices;
  Load load;
  with_slices<ForwardShapes<Doubles>>(number, [&]<class Shape>(std::type_identity<Shape>) {
    load = load_of(fit.of[number], Shape::tiles(p.m, p.n), p.k);
  });
  return time_of({&load, 1}, occupancy_of(fit.resident[number], fit.exposed, fit.again));
}

template <bool Doubles>
float backward_cost(const Costs& costs, const Problem& p, int number) {
  const tuning::SlicePairs& fit = Doubles ? costs.strict_pairs : costs.rounded_pairs;
  Load loads[2];
  with_slices<BackwardShapes<Doubles>>(number, [&]<class Pair>(std::type_identity<Pair>) {
    if (p.gradients.b != 0) loads[0] = load_of(fit.weight[number], Pair::weight::tiles(p.n, p.k), p.m);
    if (p.gradients.a != 0) loads[1] = load_of(fit.data[number], Pair::data::tiles(p.m, p.k), p.n);
  });
  return time_of(loads, occupancy_of(fit.resident[number], fit.exposed, fit.again));
}

// Rows x columns of a block's tiles / warps per tile (/ slices per warp); for the weight's gradient and x's.
constexpr const char* forward_names[]{"16x16/16/1", "16x16/16/4", "16x16/8/2", "16x32/8/2",
                                      "32x32/16/1", "32x32/8/2",  "16x64/4/2", "32x128/4/1"};
constexpr const char* backward_names[]{"16x32/8+16x16/8",   "16x32/8+16x32/8", "16x64/4+16x32/8", "16x128/2+16x16/8",
                                       "16x32/16+16x16/16", "32x32/8+16x32/8", "32x64/4+16x32/8", "32x128/2+16x32/8"};
static_assert(std::size(forward_names) == forward_shapes && std::size(backward_names) == backward_shapes);

/// The forced one, else the cheapest of the first `count`. If factors may be read as TF32, doubles win for
/// latency-bound sizes; they need a card that supports them.
template <class Rule, std::size_t Count>
Slices chosen_of(const Context& context, const char* decision, const char* const (&names)[Count], int count,
                 const Problem& problem, float (*doubles_cost)(const Costs&, const Problem&, int),
                 float (*rounded_cost)(const Costs&, const Problem&, int)) {
  const Costs& costs = tuning::costs();
  const std::string_view factors = forced_algorithm(context, "slice_factors");
  const bool may_round = problem.precision != Precision::strict;
  const bool by_tf32 = may_round && !(factors == "doubles" && card().doubles);
  const bool by_doubles = card().doubles && !(factors == "tf32" && may_round);
  const auto cheapest = [&](int first, int end) {
    Slices best;
    float least = std::numeric_limits<float>::max();
    const auto consider = [&](int number, bool doubles) {
      const float guess = (doubles ? doubles_cost : rounded_cost)(costs, problem, number);
      if (guess >= least) return;
      best = {number, doubles};
      least = guess;
    };
    for (int i = first; i < end; ++i) {
      if (by_doubles) consider(i, true);
      if (by_tf32) consider(i, false);
    }
    return best;
  };
  int forced = count;
  if (const std::string_view name = forced_algorithm(context, decision); !name.empty())
    forced = static_cast<int>(std::find(std::begin(names), std::end(names), name) - std::begin(names));
  const Slices chosen = forced < count    ? cheapest(forced, forced + 1)
                        : factors.empty() ? remembered<Rule>(problem, [&] { return cheapest(0, count); })
                                          : cheapest(0, count);
  took_algorithm(context, decision, names[chosen.shape]);
  took_algorithm(context, "slice_factors", chosen.doubles ? "doubles" : "tf32");
  return chosen;
}

}  // namespace

Slices slices_of(const Context& context, const Problem& problem) {
  struct Rule;
  return chosen_of<Rule>(context, "product_slices", forward_names, forward_shapes, problem, forward_cost<true>,
                         forward_cost<false>);
}

Slices slices_of_backward(const Context& context, const Problem& problem) {
  struct Rule;
  return chosen_of<Rule>(context, "backward_slices", backward_names, in_packs(problem) ? backward_shapes : 1, problem,
                         backward_cost<true>, backward_cost<false>);
}

}  // namespace tern::cuda::products
