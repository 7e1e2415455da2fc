// Convolutions whose groups' channels are no whole lanes: copied channels last, with zeros behind the channels of each
// group, for the algorithms that need lanes. The caller's arrays are in either order, and may have 16 bits: the copies
// then have as many for engines, and are float32 for our own products.

#include <array>

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/grouped.cuh"
#include "cuda/convolution/implicit.cuh"
#include "cuda/convolution/packed.cuh"
#include "cuda/convolution/padded_copies.cuh"
#include "cuda/convolution/padded_weights.cuh"
#include "cuda/convolution/planes.cuh"
#include "cuda/convolution/rule.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/recording.cuh"

namespace tern::cuda::convolution {
namespace {

// ---- the problem with lanes ----

// The preferred first; the others where our implicit product is clearly faster.
constexpr std::array own_forward{&fold_forward_first,    &winograd_forward_first, &implicit_forward_first,
                                 &implicit_forward_last, &library_forward,        &fold_forward_last};
constexpr std::array own_to_image{&fold_grad_x_first,     &winograd_grad_x_first, &strided_grad_x_first,
                                  &implicit_grad_x_first, &implicit_grad_x_last,  &flipped_grad_x,
                                  &library_grad_x,        &strided_grad_x_last,   &fold_grad_x_last};
constexpr std::array forward{&fold_forward_first, &winograd_forward_first, &implicit_forward_first,
                             &library_forward,    &implicit_forward_last,  &fold_forward_last};
constexpr std::array to_image{&fold_grad_x_first,     &winograd_grad_x_first, &strided_grad_x_first,
                              &implicit_grad_x_first, &flipped_grad_x,        &implicit_grad_x_last,
                              &library_grad_x,        &strided_grad_x_last,   &fold_grad_x_last};
constexpr std::array to_weight{&implicit_grad_weight, &library_grad_weight};
// In 16 bits.
constexpr std::array halves_forward{&implicit_halves_first, &fused_epilogue_forward, &library_forward,
                                    &implicit_halves_last};
constexpr std::array halves_to_image{&flipped_grad_x, &library_grad_x, &product_grad_x};
constexpr std::array halves_to_weight{&library_grad_weight};
using List = Candidates<Problem, Arrays>;

/// Whether the copies of 16-bit arrays have 16 bits: where engines, which add the bias, run them.
bool in_halves(const Problem& p) {
  const auto together = [&](std::int64_t channels) {
    return runs_together(ceil_div(channels / p.groups, engine_lanes) * engine_lanes);
  };
  return bytes_of(p.stored) == 2 && has_engines() &&
         (p.groups <= most_engine_groups || (p.KH * p.KW <= most_together_taps && together(p.C) && together(p.O)));
}
/// Engines need lanes of 8.
Problem with_lanes(const Problem& p, bool of_engines) {
  Problem inner = in_lanes(p, of_engines && p.tensor_cores() ? engine_lanes : 4);
  inner.inputs = {256, 256, 256, 0}, inner.gradients = {};
  inner.element = inner.stored = in_halves(p) ? p.stored : Element::float32;
  if (in_halves(p) && p.pass == Pass::forward && p.inputs.bias != 0)
    inner.inputs.bias = 256;
  else if (!in_halves(p))
    inner.activation = Activation::none;
  if (p.precision == Precision::bf16) inner.precision = Precision::tf32;
  return inner;
}
/// A group alone, where the images of each lie together.
Problem one_group(const Problem& inner) {
  Problem one = inner;
  one.C /= inner.groups, one.O /= inner.groups, one.groups = 1;
  one.x_channels = one.C, one.y_channels = one.O;
  one.by_groups = false;
  return one;
}
/// The forward pass of an engine that runs it.
Problem engine_of(const Problem& inner) { return inner.pass == Pass::grad_x ? flipped(inner) : inner; }

List list_of(const Problem& p) {
  if (in_halves(p))
    return p.pass == Pass::forward  ? List(halves_forward)
           : p.pass == Pass::grad_x ? List(halves_to_image)
                                    : List(halves_to_weight);
  if (p.pass == Pass::grad_weight) return to_weight;
  const bool own = prefers_implicit(engine_of(with_lanes(p, false)), engine_of(with_lanes(p, true)));
  if (p.pass == Pass::forward) return own ? List(own_forward) : List(forward);
  return own ? List(own_to_image) : List(to_image);
}

/// The problem that the algorithm of a plan runs: the plan is its place in the list.
struct Inner {
  const Algorithm* algorithm;
  Problem problem;
  int plan;                ///< of the algorithm; -1: it does not fit
  bool takes_weight;       ///< the caller's, which needs no zeros
  std::int64_t calls = 1;  ///< of the algorithm, for a group each
  Inner(const Problem& p, int plan_of_all) : algorithm(list_of(p)[static_cast<std::size_t>(plan_of_all)]) {
    const auto is = [&](const auto&... others) { return ((algorithm == &others) || ...); };
    const bool folds = is(fold_forward_first, fold_forward_last, fold_grad_x_first, fold_grad_x_last);
    const bool implicit = is(implicit_forward_first, implicit_forward_last, implicit_grad_x_first, implicit_grad_x_last,
                             strided_grad_x_first, strided_grad_x_last, implicit_grad_weight);
    problem = with_lanes(p, !implicit && !folds);
    // Our own product of the gradient of x flips the weight as it packs it, and Winograd's transforms it; the others'
    // gain only where it is large.
    constexpr std::int64_t large = 8'000'000;
    const bool forward_in_order = !is(winograd_forward_first) && (!implicit || p.weights() >= large);
    const bool in_order = p.pass == Pass::forward  ? forward_in_order
                          : p.pass == Pass::grad_x ? is(library_grad_x) || flips_weight() || folds
                                                   : !implicit;
    const bool separates = is(winograd_forward_first, winograd_grad_x_first) && p.groups > 1;
    if (separates) calls = p.groups;
    problem.by_groups = (folds || separates) && p.groups > 1;
    const bool same = p.KH * p.KW == 1 && problem.weights() == p.weights() && !flips_weight();
    problem.packed_weight =
        in_order && !same && orders_weight(problem) && same_image(problem, packed(problem, problem.element));
    takes_weight = !problem.packed_weight && problem.weights() == p.weights() && p.inputs.weight % 16 == 0 &&
                   problem.element == p.stored;
    plan = algorithm->fits(call()) ? algorithm->plan_after(call(), -1) : -1;
  }
  /// What the algorithm runs.
  Problem call() const { return calls == 1 ? problem : one_group(problem); }
  /// Its engine takes the weight backwards.
  bool flips_weight() const { return algorithm == &flipped_grad_x && problem.groups == 1; }
};
int next_plan(const Problem& p, int plan) {
  const auto count = static_cast<int>(list_of(p).size());
  for (++plan; plan < count; ++plan)
    if (Inner(p, plan).plan >= 0) return plan;
  return -1;
}

/// The arrays of the inner problem, and its workspace.
struct Workspace {
  Arrays arrays;
  void* own;
  std::size_t bytes;
  Workspace(const Inner& inner, void* block) {
    Parts parts(block);
    const auto take = [&](std::int64_t count) {
      return parts.take(static_cast<std::size_t>(count * bytes_of(inner.problem.element)));
    };
    arrays.x = take(inner.problem.images());
    arrays.weight = inner.takes_weight ? nullptr : take(inner.problem.weights());
    arrays.y = take(inner.problem.outputs());
    arrays.bias = inner.problem.inputs.bias == 0 ? nullptr : take(inner.problem.O);
    own = parts.take(inner.algorithm->bytes(inner.call(), inner.plan));
    bytes = parts.bytes();
  }
};

std::size_t workspace(const Problem& p, int plan) { return Workspace(Inner(p, plan), nullptr).bytes; }

/// With arrays of Own, and of Lane inside.
template <class Own, class Lane>
void run_as(Context& context, const Problem& p, const Arrays& arrays, const Inner& chosen, void* block) {
  const Problem& inner = chosen.problem;
  Workspace in(chosen, block);
  if (chosen.takes_weight) in.arrays.weight = arrays.weight;
  const auto channels = [&](std::int64_t real, std::int64_t padded, std::int64_t area, std::int64_t pitch) {
    const auto of_group = [&](std::int64_t count) { return static_cast<int>(count / p.groups); };
    return Channels{of_group(real),
                    Divisor<std::uint32_t>(padded / p.groups),
                    padded / p.groups,
                    static_cast<int>(p.groups),
                    static_cast<int>(area),
                    p.channels_last() ? pitch : 0,
                    inner.by_groups ? static_cast<int>(p.N) : 0};
  };
  const auto own = [](void* array) { return static_cast<Own*>(array); };
  const auto lane = [](void* array) { return static_cast<Lane*>(array); };
  const Channels of_x = channels(p.C, inner.C, p.H * p.W, p.x_channels),
                 of_y = channels(p.O, inner.O, p.OH * p.OW, p.pass == Pass::forward ? p.y_channels : p.O);
  const bool weight_pass = p.pass == Pass::grad_weight;
  if (weight_pass && arrays.bias != nullptr)
    sum_planes<Own>(context, own(arrays.bias), own(arrays.y), p.N, p.O, p.OH * p.OW);
  if (weight_pass && arrays.weight == nullptr) return;
  if (p.pass != Pass::grad_x) regroup<false>(context, lane(in.arrays.x), own(arrays.x), of_x, p.N, Unchanged{});
  if (p.pass != Pass::forward) regroup<false>(context, lane(in.arrays.y), own(arrays.y), of_y, p.N, Unchanged{});
  if (!weight_pass && inner.packed_weight && chosen.flips_weight())
    flip_weight(context, lane(in.arrays.weight), own(arrays.weight), p, inner);
  else if (!weight_pass && inner.packed_weight)
    order_weight(context, lane(in.arrays.weight), own(arrays.weight), p, inner);
  else if (!weight_pass && !chosen.takes_weight)
    copy_weight(context, lane(in.arrays.weight), own(arrays.weight), inner, p);
  if constexpr (std::is_same_v<Own, Lane> && is_half<Own>)
    if (in.arrays.bias != nullptr)
      launch(context, Grid(blocks_for(inner.O), 256), bias_kernel<Own>, own(in.arrays.bias), own(arrays.bias),
             static_cast<int>(inner.O), static_cast<int>(p.O / p.groups), Divisor<std::uint32_t>(inner.O / p.groups));
  {
    const CopiedWeights copied;
    const Problem call = chosen.call();
    for (std::int64_t i = 0; i < chosen.calls; ++i)
      chosen.algorithm->run(context, call,
                            {lane(in.arrays.x) + i * call.images(), lane(in.arrays.weight) + i * call.weights(),
                             lane(in.arrays.y) + i * call.outputs(), in.arrays.bias},
                            chosen.plan, in.own);
  }
  if constexpr (is_half<Lane>) {
    if (p.pass == Pass::forward) regroup<true>(context, own(arrays.y), lane(in.arrays.y), of_y, p.N, Unchanged{});
  } else if (p.pass == Pass::forward) {
    regroup<true>(context, own(arrays.y), lane(in.arrays.y), of_y, p.N, Epilogue<Own>{own(arrays.bias), p.activation});
  }
  if (p.pass == Pass::grad_x) regroup<true>(context, own(arrays.x), lane(in.arrays.x), of_x, p.N, Unchanged{});
  if (weight_pass && inner.packed_weight)
    restore_weight(context, own(arrays.weight), lane(in.arrays.weight), p, inner);
  else if (weight_pass && !chosen.takes_weight)
    copy_weight(context, own(arrays.weight), lane(in.arrays.weight), p, inner);
}

void run(Context& context, const Problem& p, const Arrays& arrays, int plan, void* block) {
  const Inner chosen(p, plan);
  with_stored(p, [&](auto* none) {
    using Own = std::remove_pointer_t<decltype(none)>;
    if constexpr (is_half<Own>)
      if (in_halves(p)) return run_as<Own, Own>(context, p, arrays, chosen, block);
    run_as<Own, float>(context, p, arrays, chosen, block);
  });
}

bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31, most_layers = 65535;
  if (p.element != Element::float32 || p.pools || p.C == 0 || card().code < 80) return false;
  if (p.N > most_layers || p.weights() >= most || p.H * p.W >= most || p.positions() >= most) return false;
  return with_lanes(p, true).weights() < most && next_plan(p, -1) >= 0;
}

/// Engines need lanes of 8, and run few groups.
std::int64_t engine_lanes_of(const Problem& p) {
  return p.tensor_cores() && has_engines() && p.groups <= most_engine_groups ? engine_lanes : 4;
}

/// In TF32, for which this was measured: the gradient of x through a stride of many groups, or without lanes for
/// engines, unless our implicit products take them as they are in less time.
bool folds_groups(const Problem& p) {
  const std::int64_t C = p.C / p.groups, O = p.O / p.groups;
  constexpr double clearly = 1.5;
  if (strided_fits(p) && strided_pays(p) && clearly * strided_time(p) < fold_time(p) + copies_time(p, in_lanes(p, 4)))
    return false;
  return p.tensor_cores() && p.pass == Pass::grad_x && p.stride_h * p.stride_w > 1 &&
         (p.groups > most_engine_groups || C % engine_lanes != 0 || O % engine_lanes != 0);
}

/// Groups, channels last: not where windows, strips or an implicit product take them as they are.
bool pays_in_groups(const Problem& p) {
  if (p.pass == Pass::forward && patches_forward_first.fits(p)) return false;
  const bool narrow = grouped::fits_narrow(p);
  if (narrow || !p.channels_last() || p.C / p.groups % 4 != 0 || p.O / p.groups % 4 != 0) return !narrow;
  if (folds_groups(p)) return true;
  if (!has_engines() || p.groups > most_engine_groups) return false;
  Problem own = in_lanes(p, 4), engine = with_lanes(p, true);
  own.pass = engine.pass = Pass::forward;
  return !implicit_fits(own) || library_time(engine) + copies_time(p, engine) < implicit_time(own);
}

/// A 1x1 kernel with a stride and few channels on one side: the copies would be most of the work.
bool skips_most(const Problem& p, std::int64_t summed) {
  constexpr std::int64_t few = 16, short_sum = 512;
  return p.tensor_cores() && p.KH * p.KW == 1 && p.stride_h * p.stride_w > 1 && std::min(p.C, p.O) <= few &&
         (summed < short_sum || p.pass == Pass::grad_weight);
}

/// Few positions and a large weight, whose copies take longer than its gradient from whole planes.
bool weighs_most(const Problem& p) {
  constexpr std::int64_t few = 100, large = 4'000'000;
  return p.tensor_cores() && p.pass == Pass::grad_weight && p.positions() <= few && p.weights() >= large &&
         direct_tensor_grad_weight.fits(p);
}

/// Groups that Winograd's transforms take one after the other in less time than an implicit product takes all.
bool transforms_groups(const Problem& p) {
  if (p.tensor_cores() || p.groups == 1 || p.groups > most_engine_groups || p.pass == Pass::grad_weight) return false;
  const Problem inner = with_lanes(p, false);
  return static_cast<double>(p.groups) * winograd_gain(one_group(inner)) > copies_time(p, inner);
}

/// Large problems without lanes, or with long sums, but for planes that a kernel of their own takes.
bool pays(const Problem& p) {
  const std::int64_t longest = 512, long_sum = p.tensor_cores() ? 256 : longest;
  if (p.channels_last() && p.groups == 1) return false;  // its algorithms fill the lanes of x themselves
  if (transforms_groups(p)) return true;
  const std::int64_t C = p.C / p.groups, O = p.O / p.groups, lanes = engine_lanes_of(p);
  // Channels first nothing else takes whole lanes, but for small planes.
  const bool as_they_are = p.channels_last() && !folds_groups(p);
  if (C % lanes == 0 && O % lanes == 0 && as_they_are) return false;
  const auto work = [](const Problem& q) {
    return static_cast<double>(q.outputs()) * static_cast<double>(q.C / q.groups * q.KH * q.KW);
  };
  const double waste = work(with_lanes(p, true)) / work(p);
  const std::int64_t summed =
      p.pass == Pass::grad_weight ? p.positions() : p.KH * p.KW * (p.pass == Pass::forward ? C : O);
  const double least = summed >= long_sum ? (summed >= longest && p.tensor_cores() ? 1e5 : 1e6) : 1e7;  // multiply-adds
  if (work(p) < least || (!p.tensor_cores() && waste > 2) || skips_most(p, summed) || weighs_most(p) ||
      suits_gathering(p))
    return false;
  if (p.groups > 1 && !pays_in_groups(p)) return false;
  const Algorithm* const planes[][2]{{&direct_forward, &direct_tensor_forward_last},
                                     {&direct_grad_x, &direct_tensor_grad_x_last},
                                     {&direct_grad_weight, &direct_tensor_grad_weight}};
  if (!p.channels_last() && suits_planes(p))
    for (const Algorithm* const direct : planes[p.pass == Pass::forward ? 0 : p.pass == Pass::grad_x ? 1 : 2])
      if (direct->fits(p)) return false;
  return true;
}
bool fits_first(const Problem& p) { return pays(p) && fits(p); }
bool fits_last(const Problem& p) { return fits(p) && !pays(p); }

constexpr auto named = "padded";

}  // namespace

const Algorithm padded_forward_first{named, fits_first, workspace, run, next_plan};
const Algorithm padded_forward_last{named, fits_last, workspace, run, next_plan};
const Algorithm padded_grad_x_first{named, fits_first, workspace, run, next_plan};
const Algorithm padded_grad_x_last{named, fits_last, workspace, run, next_plan};
const Algorithm padded_grad_weight_first{named, fits_first, workspace, run, next_plan};
const Algorithm padded_grad_weight_last{named, fits_last, workspace, run, next_plan};

}  // namespace tern::cuda::convolution
