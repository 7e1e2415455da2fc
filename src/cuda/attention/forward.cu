#include <cmath>

#include "cuda/attention/attention.cuh"
#include "cuda/attention/forward.cuh"

namespace tern::cuda::scaled_dot_product {
namespace {

template <class Tile, int Width, int Keys, int Warps, int Resident>
struct Shape {
  static constexpr int rows = Warps * Tile::warp_rows;
  static constexpr std::size_t bytes = forward_bytes<Tile, Width, Keys, Warps>();

  static void run(const Context& context, const Forward& pass, const Sizes& sizes) {
    constexpr auto kernel = forward_kernel<Tile, Width, Keys, Warps, Resident>;
    const auto blocks = static_cast<unsigned>(sizes.heads * ceil_div(sizes.queries, rows));
    // At most a power of two of keys are summed.
    const auto shift = static_cast<float>(std::ceil(std::log2(sizes.keys)));
    launch(context, Grid(blocks, 32 * Warps, bytes), kernel, pass, sizes, shift);
  }
};

/// Calls body with the shape for these sizes: large tiles read less, small ones fill the card. Measured on an H200
/// (benchmarks/results/fused-h200.md).
template <class Body>
void with_shape(const Context& context, const Sizes& sizes, const Body& body) {
  const double filled = fill(sizes, sizes.queries, 128);
  const bool large = filled >= 3, middle = fill(sizes, sizes.queries, 64) >= 1.5;
  const bool tensor = on_tensor_cores(context);
  with_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    if constexpr (W == 128) {
      if (tensor)
        large ? body(Shape<TensorTile<2>, W, 32, 4, 1>{}) : body(Shape<TensorTile<1>, W, 64, 4, 2>{});
      else if (large || (!sizes.causal && filled >= 0.9))
        body(Shape<FusedTile<4>, W, 64, 8, 1>{});
      else
        middle ? body(Shape<FusedTile<4, 1>, W, 64, 4, 1>{}) : body(Shape<FusedTile<2>, W, 64, 4, 1>{});
    } else if (tensor) {
      large ? body(Shape<TensorTile<2>, W, 64, 4, 2>{}) : body(Shape<TensorTile<1>, W, 64, 4, 3>{});
    } else if (large) {
      body(Shape<FusedTile<8>, W, 64, 4, 2>{});
    } else {
      middle ? body(Shape<FusedTile<4, 4>, W, 64, 4, 2>{}) : body(Shape<FusedTile<2>, W, 64, 4, 3>{});
    }
  });
}

}  // namespace

std::size_t forward_shared(const Context& context, const Sizes& sizes) {
  std::size_t bytes = 0;
  with_shape(context, sizes, [&](auto shape) { bytes = shape.bytes; });
  return bytes;
}

void run_forward(const Context& context, const Forward& pass, const Sizes& sizes) {
  with_shape(context, sizes, [&](auto shape) { shape.run(context, pass, sizes); });
}

}  // namespace tern::cuda::scaled_dot_product
