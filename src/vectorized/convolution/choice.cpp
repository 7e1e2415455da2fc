#include "vectorized/convolution/choice.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <type_traits>

#include "tern/core/error.hpp"
#include "vectorized/bfloat16/kernels.hpp"
#include "vectorized/convolution/rows.hpp"
#include "vectorized/gemm.hpp"

namespace tern::vectorized::convolution {
namespace {

bool im2col_fits(const Problem& problem) { return problem.layout == Layout::channels_first; }
bool rows_fit(const Problem& problem) { return problem.layout == Layout::channels_last; }

/// Costs of sums over patches, from measured cycles per product of a vector and a number.
template <class T>
double patch_cycles(const Problem& problem) {
  const double products = static_cast<double>(problem.N * problem.positions() * problem.groups * problem.O) *
                          static_cast<double>(problem.K()) / static_cast<double>(gemm_kernels<T>().lanes);
  return (problem.pass == Pass::grad_weight ? 0.7 : 0.62) * products;
}

/// The forward pass of im2col: cut patches, or taps where they lie.
template <class T>
double im2col_cycles(const Problem& problem) {
  if (problem.pass != Pass::forward) return patch_cycles<T>(problem);
  const std::int64_t two = 2 * gemm_kernels<T>().lanes;
  const double vectors = static_cast<double>(problem.N * problem.groups * divide_up(problem.positions(), two));
  const double products = 1.24 * vectors * static_cast<double>(problem.K());
  const auto outputs = static_cast<double>(problem.O);
  if (direct_fits(problem))
    return products * direct_products(problem) + direct_copies(problem) + 18 * vectors * outputs;
  const auto whole = static_cast<double>(problem.N * problem.groups * (problem.positions() / two));
  return products * patch_products(problem) + (9 * whole + 20 * (vectors - whole)) * outputs;
}

/// Of rows: outputs fill whole vectors, and patches are cut out run by run, vector by vector.
template <class T>
double rows_cycles(const Problem& problem) {
  if (problem.pass != Pass::forward) return patch_cycles<T>(problem);
  const std::int64_t lanes = gemm_kernels<T>().lanes;
  const double patches = static_cast<double>(problem.N * problem.positions() * problem.groups);
  const double products = patches * static_cast<double>(problem.K() * divide_up(problem.O, lanes));
  if (problem.plain()) return 0.62 * products;
  const bool whole = problem.C == problem.x_pitch && problem.dilation_w == 1;  // a row of the kernel is one run
  const double runs = patches * static_cast<double>(whole ? problem.KH : problem.taps());
  const std::int64_t run = whole ? problem.KW * problem.C : problem.C;
  // Patches that are cut in small blocks fetch weights beyond the second-level cache once for each.
  const std::int64_t weights = problem.K() * round_up(problem.O, lanes), element = problem.element;
  const bool far = weights * element > 2 * block_bytes();
  const double blocks = patches / static_cast<double>(block_of<T>(problem.KW * problem.C));
  return 0.62 * products + runs * (3 + 5 * static_cast<double>(divide_up(run, lanes))) +
         (far ? 0.35 * blocks * static_cast<double>(weights) : 0);
}

using MachineKernels = const bfloat16::Kernels* (*)();  // null if this machine has none

template <class T, MachineKernels kernels>
bool rounded_fits(const Problem& problem) {
  return std::is_same_v<T, float> && kernels() != nullptr && bfloat16_fits(problem);
}
template <MachineKernels kernels>
double rounded_cycles(const Problem& problem) {
  return bfloat16_cycles(problem, *kernels());
}
template <class T, MachineKernels kernels>
PlanPointer<T> rounded_rows(const Problem& problem, const Arrays<T>& arrays) {
  if constexpr (std::is_same_v<T, float>)
    return bfloat16_rows(problem, arrays, *kernels());
  else
    return rows(problem, arrays);  // which does not fit
}

template <class T>
using PlanOf = PlanPointer<T> (*)(const Problem&, const Arrays<T>&);

/// Runs a plan alone; what it leaves undone, the most robust algorithm computes.
template <class T, PlanOf<T> plan_of>
void run_alone(Context& context, const Problem& problem, const Arrays<T>& arrays, int /*plan*/, void* /*workspace*/) {
  const PlanPointer<T> plan = plan_of(problem, arrays);
  run(context, problem.threads, std::span(&plan, 1));
  if (!plan->done()) run_by(context, surest<T>(problem), problem, arrays);
}

template <class T, PlanOf<T> plan>
constexpr Algorithm<T> algorithm(const char* name, bool (*fits)(const Problem&), double (*cycles)(const Problem&)) {
  return {{.name = name, .fits = fits, .run = run_alone<T, plan>, .cost = cycles}, plan};
}
template <class T, MachineKernels kernels>
constexpr Algorithm<T> rounded_algorithm(const char* name) {
  return algorithm<T, rounded_rows<T, kernels>>(name, rounded_fits<T, kernels>, rounded_cycles<kernels>);
}

/// The first one that fits and handles all values.
template <class T>
constexpr std::array<Algorithm<T>, 9> algorithms{
    {algorithm<T, im2col<T>>("im2col", im2col_fits, im2col_cycles<T>),
     algorithm<T, rows<T>>("rows", rows_fit, rows_cycles<T>),
     algorithm<T, winograd<T>>("winograd", winograd_fits<T>, winograd_cycles<T>),
     algorithm<T, depthwise<T>>("depthwise", depthwise_fits, depthwise_cycles<T>),
     algorithm<T, lines<T>>("lines", lines_fit, lines_cycles<T>),
     algorithm<T, taps<T>>("taps", taps_fit, taps_cycles<T>), algorithm<T, dots<T>>("dots", dots_fit, dots_cycles<T>),
     rounded_algorithm<T, bfloat16::avx512_kernels>("avx512_bf16"),
     rounded_algorithm<T, bfloat16::amx_kernels>("amx")}};

template <class T>
constexpr auto candidates = [] {
  std::array<const kernels::Algorithm<Problem, Arrays<T>>*, std::size(algorithms<T>)> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = &algorithms<T>[i];
  return all;
}();

/// How trials time: work runs in the call.
struct HostClock {
  static constexpr int turns = 1, repeats = 1;
  static constexpr float least_gain = 0;
  template <class Work>
  static float time(const Context&, const Work& work, int a_turns, int a_repeats) {
    work();  // fetches memory and code
    float best = 0;
    for (int turn = 0; turn < a_turns; ++turn) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < a_repeats; ++i) work();
      const std::chrono::duration<float, std::micro> all = std::chrono::steady_clock::now() - start;
      best = turn == 0 ? all.count() : std::min(best, all.count());
    }
    return best / static_cast<float>(a_repeats);
  }
};

}  // namespace

const char* decision(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return "conv2d";
    case Pass::grad_x:
      return "conv2d_grad_x";
    case Pass::grad_weight:
      return "conv2d_grad_weight";
    case Pass::grad_bias:
      break;
  }
  return nullptr;
}

std::string text_of(const Problem& problem) {
  const auto pair = [](const char* name, std::int64_t h, std::int64_t w) { return message(name, h, 'x', w); };
  const char* const name = decision(problem.pass);
  return message(name == nullptr ? "conv2d_grad_bias" : name, " of ", problem.N, 'x', problem.groups * problem.C, 'x',
                 pair("", problem.H, problem.W), " by ", problem.groups * problem.O, 'x', problem.C, 'x',
                 pair("", problem.KH, problem.KW), pair(", stride ", problem.stride_h, problem.stride_w),
                 pair(", padding ", problem.pad_h, problem.pad_w),
                 pair(", dilation ", problem.dilation_h, problem.dilation_w), ", pitches ", problem.x_pitch, " and ",
                 problem.y_pitch, problem.layout == Layout::channels_last ? ", channels last" : ", channels first",
                 problem.activation == Activation::none ? "" : ", activated", problem.bias ? ", bias" : "",
                 problem.mask ? ", mask" : "", problem.element == sizeof(float) ? ", float32, " : ", float64, ",
                 problem.precision == Precision::bf16 ? "bf16, " : "", problem.threads, " threads");
}

template <class T>
const Algorithm<T>& surest(const Problem& problem) {
  return *std::find_if(algorithms<T>.begin(), algorithms<T>.end(),
                       [&](const Algorithm<T>& algorithm) { return algorithm.fits(problem); });
}

template <class T>
void run_by(Context& context, const Algorithm<T>& algorithm, const Problem& problem, const Arrays<T>& arrays) {
  algorithm.run(context, problem, arrays, 0, nullptr);
}

template <class T>
const Algorithm<T>& choose(Context& context, const Problem& problem, const Arrays<T>& arrays) {
  const kernels::Candidates<Problem, Arrays<T>> all = candidates<T>;
  const auto chosen = kernels::choose<HostClock>(context, decision(problem.pass), all, problem, arrays,
                                                 problem.deterministic, [] { return true; });
  return static_cast<const Algorithm<T>&>(*chosen.algorithm);
}

template <class T>
std::string_view name_by_rule(const Context& context, const Problem& problem) {
  const kernels::Candidates<Problem, Arrays<T>> all = candidates<T>;
  const auto chosen = kernels::chosen_by_rule(context, decision(problem.pass), all, problem);
  return chosen.algorithm == nullptr ? std::string_view() : chosen.algorithm->name;
}

template <class T>
bool fits_by_name(const Problem& problem, std::string_view name) {
  return std::ranges::any_of(
      algorithms<T>, [&](const Algorithm<T>& algorithm) { return name == algorithm.name && algorithm.fits(problem); });
}

namespace {

/// By the rule's algorithm. Where a gain must be `clear`, channels last count for more, and Winograd's sums, which
/// round more, for most.
template <class T>
double least_cycles(const Problem& problem, bool clear = false) {
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm<T>& algorithm : algorithms<T>) {
    if (!algorithm.fits(problem)) continue;
    const double factor = !clear ? 1 : algorithm.cost == winograd_cycles<T> ? 1.7 : 1.25;
    least = std::min(least, factor * algorithm.cost(problem));
  }
  return least;
}

}  // namespace

template <class T>
Layout choose_layout(const Context& context, Problem problem) {
  const bool empty = problem.N * problem.groups * problem.O * problem.K() * problem.positions() == 0;
  const Layout lies = problem.layout;
  for (const Pass pass : {Pass::forward, Pass::grad_x, Pass::grad_weight}) {
    const std::string_view forced = forced_algorithm(context, decision(pass));
    if (forced.empty()) continue;
    problem.pass = pass;
    for (const Layout layout : {Layout::channels_first, Layout::channels_last}) {
      if (empty && layout == Layout::channels_last) break;
      problem.layout = layout;
      for (const Algorithm<T>& algorithm : algorithms<T>)
        if (forced == algorithm.name && algorithm.fits(problem)) return layout;
    }
  }
  // Channels first, the image is copied with its padding; if that is most of the work, another algorithm avoids the
  // copy.
  constexpr std::int64_t little = std::int64_t{1} << 20, most = 16;
  if (!empty && problem.padded() > little && problem.padded() / most > problem.C * problem.plane())
    return Layout::channels_last;
  problem.pass = Pass::forward;
  problem.layout = Layout::channels_last;
  if (!empty && problem.groups >= 8 && depthwise_fits(problem)) return Layout::channels_last;
  // A product of the image as it lies.
  if (!empty && lies == Layout::channels_last && problem.plain() && problem.O >= 8 && problem.C >= 8)
    return Layout::channels_last;
  if (empty) return Layout::channels_first;
  // Lanes that are channels need enough of them to fill vectors, and patches of some length.
  const bool fills = problem.O >= 8 && problem.O % 8 == 0 && problem.K() >= 24;
  constexpr std::int64_t few = 16;
  if (fills && problem.O > few && problem.groups == 1) return Layout::channels_last;
  // Else what is faster, with a copy of the image in the other layout, which is a call of its own.
  constexpr double call = 5000;
  const double copy = call + 1.4 * static_cast<double>(problem.N * problem.groups * problem.C * problem.plane());
  // The gradients of many outputs that fill no vectors are slower with channels last.
  const bool clear = !fills && problem.O > few && problem.groups == 1 && problem.taps() > 1;
  const double last = least_cycles<T>(problem, clear) + (lies == Layout::channels_last ? 0 : copy);
  problem.layout = Layout::channels_first;
  const double first = least_cycles<T>(problem) + (lies == Layout::channels_first ? 0 : copy);
  return last < first ? Layout::channels_last : Layout::channels_first;
}

std::vector<std::string> remembered_choices() {
  std::vector<std::string> lines = kernels::remembered_choices<Problem, Arrays<float>>();
  std::ranges::move(kernels::remembered_choices<Problem, Arrays<double>>(), std::back_inserter(lines));
  return lines;
}

template const Algorithm<float>& choose(Context&, const Problem&, const Arrays<float>&);
template const Algorithm<double>& choose(Context&, const Problem&, const Arrays<double>&);
template void run_by(Context&, const Algorithm<float>&, const Problem&, const Arrays<float>&);
template void run_by(Context&, const Algorithm<double>&, const Problem&, const Arrays<double>&);
template const Algorithm<float>& surest(const Problem&);
template const Algorithm<double>& surest(const Problem&);
template std::string_view name_by_rule<float>(const Context&, const Problem&);
template std::string_view name_by_rule<double>(const Context&, const Problem&);
template bool fits_by_name<float>(const Problem&, std::string_view);
template bool fits_by_name<double>(const Problem&, std::string_view);
template Layout choose_layout<float>(const Context&, Problem);
template Layout choose_layout<double>(const Context&, Problem);

}  // namespace tern::vectorized::convolution
