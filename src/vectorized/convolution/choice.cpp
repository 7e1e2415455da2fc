#include "vectorized/convolution/choice.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <type_traits>

#include "modes/memo.hpp"
#include "tern/core/error.hpp"
#include "vectorized/bfloat16/kernels.hpp"
#include "vectorized/gemm.hpp"

namespace tern::vectorized::convolution {
namespace {

bool im2col_fits(const Problem& problem) { return problem.layout == Layout::channels_first; }
bool rows_fit(const Problem& problem) { return problem.layout == Layout::channels_last; }

/// Costs of sums over patches, from measured cycles per product of a vector and a number.
template <class T>
double direct_cycles(const Problem& problem) {
  const double products = static_cast<double>(problem.N * problem.positions() * problem.groups * problem.O) *
                          static_cast<double>(problem.K()) / static_cast<double>(gemm_kernels<T>().lanes);
  return (problem.pass == Pass::grad_weight ? 0.7 : 0.62) * products;
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

template <class T, MachineKernels kernels>
constexpr Algorithm<T> rounded_algorithm(const char* name) {
  return {name, rounded_fits<T, kernels>, rounded_cycles<kernels>, rounded_rows<T, kernels>};
}

/// The first one that fits and handles all values.
template <class T>
constexpr std::array<Algorithm<T>, 6> algorithms{{{"im2col", im2col_fits, direct_cycles<T>, im2col<T>},
                                                  {"rows", rows_fit, direct_cycles<T>, rows<T>},
                                                  {"winograd", winograd_fits<T>, winograd_cycles<T>, winograd<T>},
                                                  {"depthwise", depthwise_fits, depthwise_cycles<T>, depthwise<T>},
                                                  rounded_algorithm<T, bfloat16::avx512_kernels>("avx512_bf16"),
                                                  rounded_algorithm<T, bfloat16::amx_kernels>("amx")}};

/// What trials found, in this process: numbers of algorithms.
struct Trials {
  std::mutex mutex;
  Memo<Problem, std::size_t> found;

  static Trials& all() {
    static auto* const trials = new Trials;  // leaked: threads may outlive static objects
    return *trials;
  }
};

/// Among the algorithms that fit, the one with the least cost(algorithm).
template <class T, class Cost>
const Algorithm<T>& cheapest(const Problem& problem, const Cost& cost) {
  const Algorithm<T>* best = nullptr;
  double least = 0;
  for (const Algorithm<T>& algorithm : algorithms<T>) {
    if (!algorithm.fits(problem)) continue;
    const double own = cost(algorithm);
    if (best != nullptr && own >= least) continue;
    best = &algorithm;
    least = own;
  }
  return *best;
}

template <class T>
const Algorithm<T>& tried(Context& context, const Problem& problem, const Arrays<T>& arrays) {
  Trials& trials = Trials::all();
  {
    const std::scoped_lock lock(trials.mutex);
    if (const std::size_t* const known = trials.found.find(problem)) return algorithms<T>[*known];
  }
  const Algorithm<T>& fastest =
      cheapest<T>(problem, [&](const Algorithm<T>& algorithm) {  // not under the lock: other threads continue
        run_by(context, algorithm, problem, arrays);             // fetches memory and code
        const auto start = std::chrono::steady_clock::now();
        run_by(context, algorithm, problem, arrays);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      });
  const std::scoped_lock lock(trials.mutex);
  return algorithms<T>[trials.found.keep(problem, static_cast<std::size_t>(&fastest - algorithms<T>.data()))];
}

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
  const PlanPointer<T> plan = algorithm.plan(problem, arrays);
  run(context, problem.threads, std::span(&plan, 1));
  if (!plan->done()) run_by(context, surest<T>(problem), problem, arrays);
}

template <class T>
const Algorithm<T>& choose(Context& context, const Problem& problem, const Arrays<T>& arrays) {
  const auto fits = [&](const Algorithm<T>& algorithm) { return algorithm.fits(problem); };
  if (std::count_if(algorithms<T>.begin(), algorithms<T>.end(), fits) == 1) return surest<T>(problem);
  const std::string_view forced = forced_algorithm(context, decision(problem.pass));
  for (const Algorithm<T>& algorithm : algorithms<T>)
    if (forced == algorithm.name && fits(algorithm)) return algorithm;
  if (!problem.deterministic) return tried(context, problem, arrays);
  return cheapest<T>(problem, [&](const Algorithm<T>& algorithm) { return algorithm.cycles(problem); });
}

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
  // Few outputs: sums of positions, without patches, where they are fast. The gradient of the weights is slow there for
  // many channels of few positions.
  problem.layout = Layout::channels_first;
  if (direct_fits(problem)) {
    if (problem.groups > 1 ? problem.O <= 8 : problem.C == 1) return Layout::channels_first;
    const bool few = problem.O <= (problem.C <= 8 ? 16 : 8) && (problem.C <= 64 || problem.positions() >= 128);
    if (problem.groups == 1 && few && !problem.strided()) return Layout::channels_first;
  }
  // Lanes that are channels need enough of them to fill vectors, and patches of some length.
  const bool fills = problem.O >= 8 && problem.O % 8 == 0 && problem.K() >= 24;
  return fills && (problem.C >= 8 || problem.groups == 1) ? Layout::channels_last : Layout::channels_first;
}

std::vector<std::string> remembered_choices() {
  std::vector<std::string> lines;
  Trials& trials = Trials::all();
  const std::scoped_lock lock(trials.mutex);
  trials.found.each([&](const Problem& problem, std::size_t algorithm) {
    lines.push_back(message(text_of(problem), ": ", algorithms<float>[algorithm].name));
  });
  return lines;
}

template const Algorithm<float>& choose(Context&, const Problem&, const Arrays<float>&);
template const Algorithm<double>& choose(Context&, const Problem&, const Arrays<double>&);
template void run_by(Context&, const Algorithm<float>&, const Problem&, const Arrays<float>&);
template void run_by(Context&, const Algorithm<double>&, const Problem&, const Arrays<double>&);
template const Algorithm<float>& surest(const Problem&);
template const Algorithm<double>& surest(const Problem&);
template Layout choose_layout<float>(const Context&, Problem);
template Layout choose_layout<double>(const Context&, Problem);

}  // namespace tern::vectorized::convolution
