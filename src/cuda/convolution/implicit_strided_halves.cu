// The gradient of x through a stride in 16 bits, as implicit products of its phases in one launch
// (implicit_strided.cu).

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/packed.cuh"
#include "cuda/convolution/phases.cuh"
#include "cuda/convolution/rule.cuh"
#include "cuda/implicit_tiles.cuh"

namespace tern::cuda::convolution {
namespace {

using namespace implicit_tiles;

/// A phase: g by its taps. It writes positions of x that lie a stride apart.
template <class T>
struct Product {
  Factors factors;
  T* x;
  int image_step, row_step, column_step;  ///< elements from one position to the next
};
template <class T>
struct Products {
  Product<T> of[most_phases];
};
static_assert(sizeof(Products<BFloat16>) <= 4000, "parameters of a kernel have at most 4096 bytes");

/// Channels of x in fours.
template <class T>
struct Channels {
  struct Fetched {};
  const Product<T>& p;
  int c;
  __device__ __forceinline__ Channels(const Product<T>& product, int first) : p(product), c(first) {}
  __device__ __forceinline__ Fetched fetch(int) const { return {}; }
  __device__ __forceinline__ void finish(int position, const float (&sums)[4], Fetched) const {
    auto image = static_cast<std::uint32_t>(position);
    const int column = static_cast<int>(p.factors.OW.split(image)), row = static_cast<int>(p.factors.OH.split(image));
    Pack<T, 4> results;
#pragma unroll
    for (int i = 0; i < 4; ++i) put(results.value[i], sums[i]);
    *reinterpret_cast<Pack<T, 4>*>(
        p.x + (static_cast<int>(image) * p.image_step + row * p.row_step + column * p.column_step + c)) = results;
  }
};

template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, Tile::resident)
    strided_kernel(const __grid_constant__ Products<T> all) {
  extern __shared__ __align__(128) std::uint8_t ring[];
  const Product<T>& p = all.of[blockIdx.z];
  const int tile = static_cast<int>(blockIdx.x) / p.factors.split;
  if (tile / p.factors.tiles_n * Tile::rows < p.factors.positions)
    run_tile<Tile, 16, Halves<T>, Channels<T>>(ring, p);
  else
    begin_kernel();
}

Task task_of(const Problem& requested) {
  Task task{packed(requested, requested.stored), false, false, true};
  task.takes_image = takes_image(requested, task.packed);
  task.by_phases = true;
  return task;
}

bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31, side = std::int64_t{1} << 14;
  if (p.pass != Pass::grad_x || !p.channels_last() || p.groups != 1 || bytes_of(p.stored) != 2 ||
      bytes_of(p.element) != 2 || card().code < 80 || !has_phases(p))
    return false;
  const Problem packed = task_of(p).packed;
  // Places in g are counted in bytes, with those of a window outside of it.
  const std::int64_t rows = p.N * p.OH + 2 * (p.KH * p.dilation_h + p.pad_h);
  return same_image(p, packed) && !flips(p, packed) && p.C % 8 == 0 && p.O % 8 == 0 && rows * p.OW * p.O * 2 < most &&
         p.images() < most && p.weights() * 2 < most && std::max({p.OH, p.OW, p.KH * p.dilation_h + p.pad_h}) < side &&
         p.KW * p.dilation_w + p.pad_w < side;
}

Work work_of(const Problem& p) {
  constexpr double rate = 400;
  // The mean of the phases.
  const std::int64_t length = ceil_div(p.KH * p.KW * p.O * 2, p.stride_h * p.stride_w);
  return {p.N * p.H * p.W, p.C, length, rate, true};
}

template <class T>
Product<T> product_of(const Problem& p, const Phase& phase, const Arrays& arrays) {
  const auto whole = [](std::int64_t value) { return static_cast<int>(value); };
  using Divide = Divisor<std::uint32_t>;
  Product<T> product{};
  Factors& f = product.factors;
  f.x = static_cast<const std::uint8_t*>(arrays.y);
  f.weight = static_cast<const std::uint8_t*>(arrays.weight) + phase.weight * p.O * 2;
  f.positions = whole(p.N * phase.h.count * phase.w.count), f.O = whole(p.C), f.C = whole(p.O * 2);
  f.length = whole(phase.taps() * p.O * 2), f.run = whole(phase.w.taps * p.O * 2), f.H = whole(p.OH), f.W = whole(p.OW);
  f.stride_h = f.stride_w = 1, f.pad_h = whole(phase.h.pad), f.pad_w = whole(phase.w.pad);
  f.dilation_h = whole(phase.h.dilation), f.dilation_w = whole(phase.w.dilation);
  f.OH = Divide(std::max<std::int64_t>(1, phase.h.count)), f.OW = Divide(std::max<std::int64_t>(1, phase.w.count));
  f.KW = Divide(std::max<std::int64_t>(1, phase.w.taps)), f.channels = Divide(f.C);
  product.x = static_cast<T*>(arrays.x) + (phase.h.first * p.W + phase.w.first) * p.C;
  product.image_step = whole(p.H * p.W * p.C), product.row_step = whole(p.stride_h * p.W * p.C);
  product.column_step = whole(p.stride_w * p.C);
  return product;
}

template <class T>
void run_strided(Context& context, const Problem& p, const Arrays& arrays) {
  const Plan plan = plan_of(context, p, work_of(p));
  with_tile(plan.tile, [&]<class Tile>(Tile) {
    Products<T> all{};
    unsigned count = 0, blocks = 0;
    for (const Phase& phase : phases_of(p)) {
      Product<T>& product = all.of[count++] = product_of<T>(p, phase, arrays);
      blocks = std::max(blocks, divide<Tile>(product.factors, plan.split).blocks.x);
    }
    Grid grid(dim3(blocks, 1, count), Tile::threads, Tile::shared_bytes);
    grid.cluster = static_cast<unsigned>(plan.split);
    launch(context, grid, strided_kernel<Tile, T>, all);
  });
}

struct Strided {
  static int next_plan(const Problem&, const Task&, int plan) { return plan < 0 ? 0 : -1; }
  static std::size_t workspace(const Problem&, const Task&, int) { return 0; }
  static void run(Context& context, const Problem& requested, const Task& task, const Arrays& arrays, int, void*) {
    requested.stored == Element::float16 ? run_strided<Float16>(context, task.packed, arrays)
                                         : run_strided<BFloat16>(context, task.packed, arrays);
  }
};

/// Engines of cuDNN are good at small kernels.
bool pays(const Problem& p) { return p.KH * p.KW > 25; }

constexpr auto named = "implicit";

}  // namespace

const Algorithm strided_halves_first = Around<task_of, Strided>::algorithm(
    named, [](const Problem& requested) { return fits(requested) && pays(requested); });
const Algorithm strided_halves_last = Around<task_of, Strided>::algorithm(
    named, [](const Problem& requested) { return fits(requested) && !pays(requested); });

}  // namespace tern::cuda::convolution
