// Forward convolutions of 16 bits, channels last, as products on tensor cores whose factors the copy engine brings.

#include "cuda/box_plans.cuh"
#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/packed.cuh"

namespace tern::cuda::convolution {
namespace {

using namespace implicit_boxes;

template <class T>
struct Product {
  Boxes boxes;
  T* y;
  const T *bias, *added;
  int pitch;  // of y
  Activation activation, after;
};

__device__ __forceinline__ float clipped(float value, Activation activation) {
  return activation == Activation::none ? value : clip(value, activation);
}

/// N output channels, from o on. Rounded as the convolution, and as the sum with `added`.
template <class T, int N>
struct Adjacent {
  using Fetched = Pack<std::uint32_t, N / 2>;
  int o;
  float bias[N];
  static __device__ __forceinline__ float value_of(const std::uint32_t (&words)[N / 2], int i) {
    T value;
    value.bits = static_cast<std::uint16_t>(words[i / 2] >> i % 2 * 16);
    return widened(value);
  }
  __device__ __forceinline__ void load(const Product<T>& p, int first) {
    o = first;
    Fetched of_bias{};
    if (p.bias != nullptr) of_bias = *reinterpret_cast<const Fetched*>(p.bias + o);
#pragma unroll
    for (int i = 0; i < N; ++i) bias[i] = value_of(of_bias.value, i);
  }
  __device__ __forceinline__ Fetched fetch(const Product<T>& p, int position) const {
    return p.added == nullptr
               ? Fetched{}
               : *reinterpret_cast<const Fetched*>(p.added + static_cast<std::int64_t>(position) * p.boxes.O + o);
  }
  __device__ __forceinline__ void finish(const Product<T>& p, int position, const float (&sums)[N],
                                         const Fetched& added) const {
    Pack<T, N> results;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      put(results.value[i], clipped(sums[i] + bias[i], p.activation));
      if (p.added == nullptr) continue;
      T both;
      put(both, widened(results.value[i]) + value_of(added.value, i));
      put(results.value[i], clipped(widened(both), p.after));
    }
    *reinterpret_cast<Pack<T, N>*>(p.y + static_cast<std::int64_t>(position) * p.pitch + o) = results;
  }
};

template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, Tile::resident) boxes_kernel(const __grid_constant__ Product<T> p) {
  extern __shared__ __align__(1024) std::uint8_t shared[];
  run_tile<Tile, implicit_tiles::Halves<T>, Adjacent<T, Tile::adjacent>>(shared, p);
}

Task task_of(const Problem& requested) {
  Problem problem = with_epilogue(requested, requested.stored);
  problem.activation = requested.activation;
  return {problem, takes_image(requested, problem), takes_weight(requested, problem), true};
}

/// Of the packed problem: in bytes.
Work work_of(const Problem& requested, const Problem& packed) {
  const std::uint32_t y = requested.inputs.y;
  const int at_once = requested.y_channels % 8 == 0 && y % 16 == 0  ? 8
                      : requested.y_channels % 4 == 0 && y % 8 == 0 ? 4
                                                                    : 1;
  return {packed.positions(), packed.O, packed.KH * packed.KW, packed.C * 2, at_once};
}

bool fits(const Problem& requested) {
  // An engine of the library takes longer to begin and to end; with much to do its tiles are faster.
  constexpr std::int64_t few = std::int64_t{1} << 20;
  if (!requested.channels_last() || requested.groups != 1 || bytes_of(requested.stored) != 2 ||
      !clips(requested.activation))
    return false;
  const Problem packed = task_of(requested).packed;
  // A stage ends with a tap: what lies beyond its channels might not be finite.
  const Work work = work_of(requested, packed);
  return boxes_fit(packed, 2, 16, 16) && work.C % work.depth() == 0 && requested.outputs() <= few &&
         requested.inputs.bias % 16 == 0 && plan_after(requested, work, -1) >= 0;
}

template <class T>
void run_boxes(Context& context, const Problem& requested, const Problem& packed, const Arrays& arrays, int plan) {
  const Work work = work_of(requested, packed);
  with_boxes(context, packed, 2, dense(packed, 2), arrays.x, arrays.weight, work, forced_or(context, work, plan),
             [&]<class Tile>(Tile, const Grid& grid, const Boxes& boxes) {
               const Product<T> product{.boxes = boxes,
                                        .y = static_cast<T*>(arrays.y),
                                        .bias = static_cast<const T*>(arrays.bias),
                                        .added = static_cast<const T*>(arrays.added),
                                        .pitch = static_cast<int>(requested.y_channels),
                                        .activation = requested.activation,
                                        .after = arrays.after};
               prefer_shared(reinterpret_cast<const void*>(boxes_kernel<Tile, T>));
               launch(context, grid, boxes_kernel<Tile, T>, product);
             });
}

struct OnBoxes {
  static int next_plan(const Problem& requested, const Task& task, int plan) {
    return plan_after(requested, work_of(requested, task.packed), plan);
  }
  static std::size_t workspace(const Problem&, const Task&, int) { return 0; }
  static void run(Context& context, const Problem& requested, const Task& task, const Arrays& arrays, int plan, void*) {
    requested.stored == Element::float16 ? run_boxes<Float16>(context, requested, task.packed, arrays, plan)
                                         : run_boxes<BFloat16>(context, requested, task.packed, arrays, plan);
  }
};

/// Whether it should be faster than an engine. In cycles: what an engine takes at least and its operations in one, with
/// VGG16's first layers on an H200. Engines read their factors from shared memory, and so reach twice our rate.
bool prefers(const Problem& requested) {
  struct Rule;
  return remembered<Rule>(requested, [&] {
    const Work work = work_of(requested, task_of(requested).packed);
    constexpr double begin = 3500, least = 13000, rate = 280000;
    const double operations = static_cast<double>(work.positions) * static_cast<double>(work.O * work.taps * work.C);
    const double engine = std::max(least, begin + operations / rate);
    return begin + cycles(work, plan_after(requested, work, -1)) <= 1.15 * engine;
  });
}

}  // namespace

const Algorithm boxes_halves_first = Around<task_of, OnBoxes>::algorithm(
    "implicit", [](const Problem& requested) { return fits(requested) && prefers(requested); });
const Algorithm boxes_halves_last = Around<task_of, OnBoxes>::algorithm(
    "implicit", [](const Problem& requested) { return fits(requested) && !prefers(requested); });

}  // namespace tern::cuda::convolution
