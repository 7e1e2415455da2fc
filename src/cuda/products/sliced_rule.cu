#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>

#include "cuda/cost.cuh"
#include "cuda/products/sliced_shapes.cuh"
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

/// The cost of a block, in microseconds, fitted to the times of all shapes for 66 layers of 8 to 512 rows on an H200:
/// see Load; each per 1000 k and per block.
struct Figures {
  float work_k, work_once, wait_k, wait_once;
};
Load load_of(const Figures& of, std::int64_t blocks, std::int64_t k) {
  const float thousands = static_cast<float>(k) / 1000;
  return {static_cast<float>(blocks), of.work_once + of.work_k * thousands, of.wait_once + of.wait_k * thousands};
}

struct ForwardFit {
  Figures of[forward_shapes];
  float resident[forward_shapes];
  float exposed, again;
};
constexpr ForwardFit strict_forward{{{1.45f, 0.843f, 2.29f, 1.26f},
                                     {0.161f, 0.28f, 2.65f, 1.46f},
                                     {0.138f, 1.1f, 4.34f, 0.686f},
                                     {2.47f, 0.865f, 5.44f, 1.35f},
                                     {5.82f, 2.14f, 3.49f, 1.03f},
                                     {7.08f, 1.16f, 3.3f, 1.19f},
                                     {3.91f, 1.23f, 11.3f, 1.42f},
                                     {3.57f, 0.637f, 20.7f, 3.66f}},
                                    {1, 1, 2, 2, 1, 1, 2, 1},
                                    0.396f,
                                    0.992f};
constexpr ForwardFit rounded_forward{{{0.52f, 1.18f, 3.95f, 0.846f},
                                      {0.16f, 0.257f, 2.1f, 1.57f},
                                      {1.17f, 0.786f, 3.18f, 1.07f},
                                      {1.96f, 0.619f, 3.67f, 1.31f},
                                      {2.48f, 0.951f, 4.06f, 1.91f},
                                      {4.32f, 0.766f, 4.53f, 1.78f},
                                      {4.45f, 0.936f, 4.02f, 1.35f},
                                      {13.8f, 1.63f, 3.23f, 1.43f}},
                                     {2, 1, 3, 2, 1, 2, 2, 1},
                                     0.491f,
                                     1.09f};

/// For pairs. The sums of the weight's gradient run over the rows, those of x's over the outputs.
struct BackwardFit {
  struct Of {
    Figures weight, data;
    float resident;
  } of[backward_shapes];
  float exposed, again;
};
constexpr BackwardFit strict_backward{{{{3.99f, 0.655f, 7.04f, 1.63f}, {2.3f, 0.591f, 6.4f, 1.11f}, 2},
                                       {{4.14f, 0.624f, 6.7f, 1.64f}, {3.2f, 0.804f, 11, 0.987f}, 2},
                                       {{6.4f, 0.872f, 13.5f, 1.95f}, {4.54f, 0.506f, 10.4f, 1.04f}, 2},
                                       {{13, 0.878f, 26.2f, 2.18f}, {2.73f, 0.387f, 6.36f, 0.906f}, 2},
                                       {{3.92f, 1.33f, 4.49f, 1.82f}, {3.5f, 1.01f, 5.37f, 0.843f}, 1},
                                       {{8.08f, 1.23f, 6.56f, 2.08f}, {6.35f, 0.76f, 11.9f, 0.158f}, 1},
                                       {{13.3f, 2.29f, 19.1f, 0.737f}, {5.08f, 0.778f, 5.24f, 1.58f}, 2},
                                       {{24.9f, 1.88f, 28.5f, 2.49f}, {7.46f, 0.149f, 7.85f, 0.527f}, 2}},
                                      0.329f,
                                      0.0934f};
constexpr BackwardFit rounded_backward{{{{4.11f, 0.726f, 6.89f, 1.71f}, {2.09f, 0.579f, 8.88f, 0.922f}, 2},
                                        {{3.81f, 0.74f, 6.79f, 1.62f}, {3.24f, 0.522f, 10.8f, 1.01f}, 2},
                                        {{6.4f, 0.874f, 14, 1.82f}, {5.95f, 0.0733f, 6.65f, 1.58f}, 2},
                                        {{14, 0.808f, 24.4f, 2.16f}, {3.17f, 0.408f, 7.15f, 0.721f}, 2},
                                        {{3.54f, 1.49f, 4.66f, 1.3f}, {2.13f, 1.48f, 2.25f, 1.19f}, 1},
                                        {{5.18f, 0.781f, 8.88f, 1.97f}, {5.21f, 0.145f, 8.08f, 1.21f}, 1},
                                        {{8.86f, 1.18f, 17.4f, 2.81f}, {4.63f, 0.22f, 6.33f, 1.91f}, 2},
                                        {{2.39f, 1.19f, 49.9f, 2.93f}, {7.03f, 0.0461f, 7.93f, 0.764f}, 2}},
                                       0.329f,
                                       0.0256f};

Occupancy occupancy_of(float resident, float exposed, float again) {
  return {static_cast<float>(card().multiprocessors), resident, exposed, again};
}

template <bool Doubles>
float forward_cost(const Problem& p, int number) {
  const ForwardFit& fit = Doubles ? strict_forward : rounded_forward;
  Load load;
  with_slices<ForwardShapes<Doubles>>(number, [&]<class Shape>(std::type_identity<Shape>) {
    load = load_of(fit.of[number], Shape::tiles(p.m, p.n), p.k);
  });
  return time_of({&load, 1}, occupancy_of(fit.resident[number], fit.exposed, fit.again));
}

template <bool Doubles>
float backward_cost(const Problem& p, int number) {
  const BackwardFit& fit = Doubles ? strict_backward : rounded_backward;
  Load loads[2];
  with_slices<BackwardShapes<Doubles>>(number, [&]<class Pair>(std::type_identity<Pair>) {
    const BackwardFit::Of& of = fit.of[number];
    if (p.gradients.b != 0) loads[0] = load_of(of.weight, Pair::weight::tiles(p.n, p.k), p.m);
    if (p.gradients.a != 0) loads[1] = load_of(of.data, Pair::data::tiles(p.m, p.k), p.n);
  });
  return time_of(loads, occupancy_of(fit.of[number].resident, fit.exposed, fit.again));
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
                 const Problem& problem, float (*doubles_cost)(const Problem&, int),
                 float (*rounded_cost)(const Problem&, int)) {
  const std::string_view factors = forced_algorithm(context, "slice_factors");
  const bool may_round = problem.precision != Precision::strict;
  const bool by_tf32 = may_round && !(factors == "doubles" && card().doubles);
  const bool by_doubles = card().doubles && !(factors == "tf32" && may_round);
  const auto cheapest = [&](int first, int end) {
    Slices best;
    float least = std::numeric_limits<float>::max();
    const auto consider = [&](int number, bool doubles) {
      const float guess = (doubles ? doubles_cost : rounded_cost)(problem, number);
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
