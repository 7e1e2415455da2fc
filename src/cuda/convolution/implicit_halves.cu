// Forward convolutions of 16 bits as implicit products on tensor cores, channels last. The library's engines multiply
// faster; for little work, such as one image's, their start and end take longer than ours.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/packed.cuh"
#include "cuda/implicit_tiles.cuh"

namespace tern::cuda::convolution {
namespace {

using namespace implicit_tiles;

template <class T>
struct Product {
  Factors factors;
  T* y;
  const T *bias, *added;
  int pitch;  // of y
  Activation activation, after;
  bool fours;  // y, added and bias may be read and written in fours
};

template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, Tile::resident) halves_kernel(const __grid_constant__ Product<T> p) {
  extern __shared__ __align__(128) std::uint8_t ring[];
  // Rounded as the convolution, and as the sum with `added`.
  const auto finished = [&](float sum, float bias, float added) {
    T result;
    put(result, activate(sum + bias, p.activation));
    if (p.added != nullptr) {
      T both;
      put(both, widened(result) + added);
      put(result, activate(widened(both), p.after));
    }
    return result;
  };
  run_tile<Tile, 16, Halves<T>>(ring, p.factors, [&](int position, int o, const float(&sums)[4]) {
    const std::int64_t at = static_cast<std::int64_t>(position) * p.pitch + o;
    const std::int64_t beside = static_cast<std::int64_t>(position) * p.factors.O + o;
    if (p.fours) {
      Pack<float, 4> bias{}, added{};
      if (p.bias != nullptr) bias = load<4>(p.bias + o);
      if (p.added != nullptr) added = load<4>(p.added + beside);
      Pack<T, 4> results;
#pragma unroll
      for (int i = 0; i < 4; ++i) results.value[i] = finished(sums[i], bias.value[i], added.value[i]);
      *reinterpret_cast<Pack<T, 4>*>(p.y + at) = results;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (o + i < p.factors.O)
        p.y[at + i] = finished(sums[i], p.bias == nullptr ? 0.0f : widened(p.bias[o + i]),
                               p.added == nullptr ? 0.0f : widened(p.added[beside + i]));
  });
}

Task task_of(const Problem& requested) {
  Problem problem = with_epilogue(requested, requested.stored);
  problem.activation = requested.activation;
  return {problem, takes_image(requested, problem), takes_weight(requested, problem), true};
}

bool fits(const Problem& requested) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (!requested.channels_last() || requested.groups != 1 || bytes_of(requested.stored) != 2 || card().code < 80)
    return false;
  const Problem packed = task_of(requested).packed;
  return packed.C > 0 && packed.KH * packed.KW > 0 && implicit_tiles::counts(packed, 2) &&
         packed.positions() * packed.y_channels < most;
}
bool fits_first(const Problem& requested) {
  constexpr double little = 4e8;  // multiply-adds
  return static_cast<double>(requested.outputs()) * static_cast<double>(requested.C * requested.KH * requested.KW) <=
             little &&
         fits(requested);
}

template <class T>
void run_halves(Context& context, const Problem& requested, const Problem& packed, const Arrays& arrays) {
  constexpr double rate = 400;
  const Plan plan =
      plan_of(context, packed, {packed.positions(), packed.O, packed.KH * packed.KW * packed.C * 2, rate});
  Product<T> p{.factors = factors_of(packed, 2, arrays.x, arrays.weight),
               .y = static_cast<T*>(arrays.y),
               .bias = static_cast<const T*>(arrays.bias),
               .added = static_cast<const T*>(arrays.added),
               .pitch = static_cast<int>(requested.y_channels),
               .activation = requested.activation,
               .after = arrays.after,
               .fours = false};
  p.fours = packed.O % 4 == 0 && p.pitch % 4 == 0 && aligned<4>(p.y) && aligned<4>(p.bias) && aligned<4>(p.added);
  with_tile(plan.tile, [&]<class Tile>(Tile) {
    const Grid grid = divide<Tile>(p.factors, plan.split);
    launch(context, grid, halves_kernel<Tile, T>, p);
  });
}

struct Implicit {
  static int next_plan(const Problem&, const Task&, int plan) { return plan < 0 ? 0 : -1; }
  static std::size_t workspace(const Problem&, const Task&, int) { return 0; }
  static void run(Context& context, const Problem& requested, const Task& task, const Arrays& arrays, int, void*) {
    requested.stored == Element::float16 ? run_halves<Float16>(context, requested, task.packed, arrays)
                                         : run_halves<BFloat16>(context, requested, task.packed, arrays);
  }
};

}  // namespace

const Algorithm implicit_halves_first = Around<task_of, Implicit>::algorithm("implicit", fits_first);
const Algorithm implicit_halves_last = Around<task_of, Implicit>::algorithm("implicit", fits);

}  // namespace tern::cuda::convolution
