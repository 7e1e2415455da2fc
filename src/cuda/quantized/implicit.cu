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
  bool fours;  // finish_fours() may be used
};

template <class Tile, int Unit>
__global__ void __launch_bounds__(Tile::threads, Tile::resident) implicit_kernel(const __grid_constant__ Product p) {
  extern __shared__ __align__(128) std::uint8_t ring[];
  run_tile<Tile, Unit, Bytes>(ring, p.factors, [&](int position, int o, const std::int32_t(&sums)[4]) {
    const std::int64_t at = static_cast<std::int64_t>(position) * p.pitch + o;
    if (p.fours) return finish_fours(p.arrays, sums, at, o, p.rescale);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (o + i < p.factors.O) finish(p.arrays, sums[i], at + i, o + i, p.rescale);
  });
}

bool fits(const Problem& problem) {
  return card().code >= 80 && problem.groups == 1 && problem.length() > 0 && problem.small();
}

/// How many numbers of x and of the weights are copied at once.
template <class Body>
void with_unit(const Problem& p, const Body& body) {
  const auto in = [&](std::int64_t unit) { return p.C % unit == 0 && p.x % unit == 0 && p.weight % unit == 0; };
  if (in(16)) return body(std::integral_constant<int, 16>());
  in(4) ? body(std::integral_constant<int, 4>()) : body(std::integral_constant<int, 1>());
}

void run(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  constexpr double rate = 1600;
  const Plan plan = plan_of(context, problem, {problem.positions(), problem.O, problem.length(), rate});
  Product p{factors_of(problem, 1, arrays.of.x, arrays.of.weight), arrays.of, arrays.rescale,
            static_cast<int>(problem.pitch()), problem.whole};
  p.factors.padding = static_cast<std::uint32_t>(arrays.rescale.x_zero) * 0x01010101u;
  with_tile(plan.tile, [&]<class Tile>(Tile) {
    const Grid grid = divide<Tile>(p.factors, plan.split);
    with_unit(problem, [&](auto unit) { launch(context, grid, implicit_kernel<Tile, unit.value>, p); });
  });
}

}  // namespace

const Algorithm implicit{.name = "implicit", .fits = fits, .run = run};

}  // namespace tern::cuda::eight_bits
