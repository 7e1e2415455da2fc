// Convolutions of stored numbers on tensor cores. Sums of integers have the same bits in any order, so the tiles do not
// change a result.

#include "cuda/implicit_tiles.cuh"
#include "cuda/quantized/problem.cuh"

namespace tern::cuda::eight_bits {
namespace {

using namespace implicit_tiles;

struct Product {
  Factors factors;
  QuantizedArrays arrays;
  Rescale rescale;
  int pitch;
};

/// Output channels in fours.
struct Whole {
  using Fetched = std::uint32_t;
  const Product& p;
  int o;
  Fours fours;
  __device__ __forceinline__ Whole(const Product& product, int first)
      : p(product), o(first), fours(product.arrays, product.rescale, first) {}
  __device__ __forceinline__ std::int64_t at(int position) const {
    return static_cast<std::int64_t>(position) * p.pitch + o;
  }
  __device__ __forceinline__ Fetched fetch(int position) const { return fours.fetch(at(position)); }
  __device__ __forceinline__ void finish(int position, const std::int32_t (&sums)[4], Fetched added) const {
    fours.finish(at(position), sums, added);
  }
};
/// One by one.
struct Single {
  struct Fetched {};
  const Product& p;
  int o;
  __device__ __forceinline__ Single(const Product& product, int first) : p(product), o(first) {}
  __device__ __forceinline__ Fetched fetch(int) const { return {}; }
  __device__ __forceinline__ void finish(int position, const std::int32_t (&sums)[4], Fetched) const {
    const std::int64_t at = static_cast<std::int64_t>(position) * p.pitch + o;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (o + i < p.factors.O) cuda::finish(p.arrays, sums[i], at + i, o + i, p.rescale);
  }
};

template <class Tile, int Unit, class Channels>
__global__ void __launch_bounds__(Tile::threads, Tile::resident) implicit_kernel(const __grid_constant__ Product p) {
  extern __shared__ __align__(128) std::uint8_t ring[];
  run_tile<Tile, Unit, Bytes, Channels>(ring, p);
}

/// How many numbers of x and of the weights are copied at once.
int unit_of(const Problem& p) {
  const auto in = [&](std::int64_t unit) { return p.C % unit == 0 && p.x % unit == 0 && p.weight % unit == 0; };
  return in(16) ? 16 : in(8) ? 8 : in(4) ? 4 : 1;
}
template <class Body>
void with_unit(int unit, const Body& body) {
  if (unit == 16) return body(std::integral_constant<int, 16>());
  if (unit == 8) return body(std::integral_constant<int, 8>());
  unit == 4 ? body(std::integral_constant<int, 4>()) : body(std::integral_constant<int, 1>());
}

bool fits(const Problem& problem) {
  return card().code >= 80 && problem.groups == 1 && problem.length() > 0 && problem.small() &&
         (problem.dilation_w == 1 || unit_of(problem) > 1);
}

void run(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  constexpr double rate = 1600;
  const Plan plan = plan_of(context, problem, {problem.positions(), problem.O, problem.length(), rate, problem.whole});
  Product p{factors_of(problem, 1, arrays.of.x, arrays.of.weight), arrays.of, arrays.rescale,
            static_cast<int>(problem.pitch())};
  p.factors.padding = static_cast<std::uint32_t>(arrays.rescale.x_zero) * 0x01010101u;
  const int at_once = unit_of(problem);
  if (at_once == 1) pad_runs(p.factors);
  const auto start = [&]<class Tile, class Channels>(Tile, Channels*) {
    const Grid grid = divide<Tile>(p.factors, plan.split);
    with_unit(at_once, [&](auto unit) { launch(context, grid, implicit_kernel<Tile, unit.value, Channels>, p); });
  };
  if (!problem.whole) return start(UsualTile{}, static_cast<Single*>(nullptr));
  with_tile(plan.tile, [&](auto tile) { start(tile, static_cast<Whole*>(nullptr)); });
}

}  // namespace

const Algorithm implicit{.name = "implicit", .fits = fits, .run = run};

}  // namespace tern::cuda::eight_bits
