// Forward convolutions of 16 bits as implicit products on tensor cores, channels last, for what no engine of the
// library runs, for trials, and where engines leave most of the card idle; else engines are faster
// (benchmarks/results/halves.md).

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/packed.cuh"
#include "cuda/convolution/rule.cuh"
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
};

/// Rounded as the convolution, and as the sum with `added`.
template <class T>
__device__ __forceinline__ T finished(const Product<T>& p, float sum, float bias, float added) {
  T result;
  put(result, activate(sum + bias, p.activation));
  if (p.added != nullptr) {
    T both;
    put(both, widened(result) + added);
    put(result, activate(widened(both), p.after));
  }
  return result;
}

/// Output channels in fours.
template <class T>
struct Whole {
  using Fetched = Pack<float, 4>;
  const Product<T>& p;
  int o;
  Pack<float, 4> bias{};
  __device__ __forceinline__ Whole(const Product<T>& product, int first) : p(product), o(first) {
    if (p.bias != nullptr) bias = load<4>(p.bias + o);
  }
  __device__ __forceinline__ Fetched fetch(int position) const {
    return p.added == nullptr ? Fetched{} : load<4>(p.added + static_cast<std::int64_t>(position) * p.factors.O + o);
  }
  __device__ __forceinline__ void finish(int position, const float (&sums)[4], const Fetched& added) const {
    Pack<T, 4> results;
#pragma unroll
    for (int i = 0; i < 4; ++i) results.value[i] = finished(p, sums[i], bias.value[i], added.value[i]);
    *reinterpret_cast<Pack<T, 4>*>(p.y + static_cast<std::int64_t>(position) * p.pitch + o) = results;
  }
};
/// One by one.
template <class T>
struct Single {
  struct Fetched {};
  const Product<T>& p;
  int o;
  __device__ __forceinline__ Single(const Product<T>& product, int first) : p(product), o(first) {}
  __device__ __forceinline__ Fetched fetch(int) const { return {}; }
  __device__ __forceinline__ void finish(int position, const float (&sums)[4], Fetched) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (o + i >= p.factors.O) break;
      const std::int64_t beside = static_cast<std::int64_t>(position) * p.factors.O + o + i;
      p.y[static_cast<std::int64_t>(position) * p.pitch + o + i] =
          finished(p, sums[i], p.bias == nullptr ? 0.0f : widened(p.bias[o + i]),
                   p.added == nullptr ? 0.0f : widened(p.added[beside]));
    }
  }
};

template <class Tile, class T, class Channels>
__global__ void __launch_bounds__(Tile::threads, Tile::resident) halves_kernel(const __grid_constant__ Product<T> p) {
  extern __shared__ __align__(128) std::uint8_t ring[];
  run_tile<Tile, 16, Halves<T>, Channels>(ring, p);
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

constexpr double rate = 400;
Work work_of(const Problem& packed, bool whole) {
  return {packed.positions(), packed.O, packed.KH * packed.KW * packed.C * 2, rate, whole};
}

/// Tiles are few and sums long. Engines rarely divide those among blocks, least of all through a stride or a dilation.
/// Microseconds on an H200.
bool starves_engines(const Problem& requested) {
  constexpr std::int64_t long_sum = 4096, rows = 128, columns = 64;
  constexpr double launch = 5, clearly = 1.25;
  const Problem packed = task_of(requested).packed;
  const bool dense = packed.stride_h * packed.stride_w * packed.dilation_h * packed.dilation_w == 1;
  const double each = dense ? 0.0025 : 0.0055;  // of an element of the sum, while each multiprocessor has a tile
  const std::int64_t sum = packed.KH * packed.KW * packed.C,
                     tiles = ceil_div(packed.positions(), rows) * ceil_div(packed.O, columns);
  if (sum < long_sum || 2 * tiles > card().multiprocessors || is_common(packed)) return false;
  struct Rule;
  return remembered<Rule>(packed, [&] {
    const bool whole = packed.O % 4 == 0 && packed.y_channels % 4 == 0;
    return clearly * choose_plan(Context{}, work_of(packed, whole)).cycles / card().clock <
           each * static_cast<double>(sum) + launch;
  });
}
bool fits_first(const Problem& requested) { return fits(requested) && starves_engines(requested); }
bool fits_last(const Problem& requested) { return fits(requested) && !starves_engines(requested); }

template <class T>
void run_halves(Context& context, const Problem& requested, const Problem& packed, const Arrays& arrays) {
  Product<T> p{.factors = factors_of(packed, 2, arrays.x, arrays.weight),
               .y = static_cast<T*>(arrays.y),
               .bias = static_cast<const T*>(arrays.bias),
               .added = static_cast<const T*>(arrays.added),
               .pitch = static_cast<int>(requested.y_channels),
               .activation = requested.activation,
               .after = arrays.after};
  // What the plan reads of the arrays is part of its key.
  Problem key = packed;
  key.inputs = {alignment_of(arrays.added), 0, alignment_of(arrays.y), alignment_of(arrays.bias)};
  const bool whole =
      packed.O % 4 == 0 && p.pitch % 4 == 0 && aligned<4>(p.y) && aligned<4>(p.bias) && aligned<4>(p.added);
  const Plan plan = plan_of(context, key, work_of(packed, whole));
  const auto start = [&]<class Tile, class Channels>(Tile, Channels*) {
    const Grid grid = divide<Tile>(p.factors, plan.split);
    launch(context, grid, halves_kernel<Tile, T, Channels>, p);
  };
  if (!whole) return start(UsualTile{}, static_cast<Single<T>*>(nullptr));
  with_tile(plan.tile, [&](auto tile) { start(tile, static_cast<Whole<T>*>(nullptr)); });
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
const Algorithm implicit_halves_last = Around<task_of, Implicit>::algorithm("implicit", fits_last);

}  // namespace tern::cuda::convolution
