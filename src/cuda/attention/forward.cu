#include "cuda/attention/attention.cuh"
#include "cuda/attention/forward.cuh"

namespace tern::cuda::scaled_dot_product {
namespace {

/// Calls body with the shape for these sizes: large tiles read less, small ones fill the card. Measured on an H200
/// (benchmarks/results/fused-h200.md).
template <class Body>
void with_shape(const Context& context, const Sizes& sizes, const Body& body) {
  const double filled = fill(sizes, sizes.queries, 128);
  const bool large = filled >= 3, middle = fill(sizes, sizes.queries, 64) >= 1.5;
  const bool tensor = on_tensor_cores(context);
  with_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    if constexpr (W >= 96) {
      using Large = std::conditional_t<W == 96, ForwardShape<TensorTile<2>, W, 64, 4, 2>,
                                       ForwardShape<TensorTile<2>, W, 32, 4, 1>>;
      if (tensor)
        large ? body(Large{}) : body(ForwardShape<TensorTile<1>, W, 64, 4, 2>{});
      else if (large || (!sizes.causal && filled >= 0.9))
        body(ForwardShape<FusedTile<4>, W, 64, 8, 1>{});
      else
        middle ? body(ForwardShape<FusedTile<4, 1>, W, 64, 4, 1>{}) : body(ForwardShape<FusedTile<2>, W, 64, 4, 1>{});
    } else if (tensor) {
      large ? body(ForwardShape<TensorTile<2>, W, 64, 4, 2>{}) : body(ForwardShape<TensorTile<1>, W, 64, 4, 3>{});
    } else if (large) {
      body(ForwardShape<FusedTile<8>, W, 64, 4, 2>{});
    } else {
      middle ? body(ForwardShape<FusedTile<4, 4>, W, 64, 4, 2>{}) : body(ForwardShape<FusedTile<2>, W, 64, 4, 3>{});
    }
  });
}

}  // namespace

template <>
std::size_t forward_shared<float>(const Context& context, const Sizes& sizes) {
  std::size_t bytes = 0;
  with_shape(context, sizes, [&](auto shape) { bytes = shape.bytes; });
  return bytes;
}

template <>
void run_forward<float>(Context& context, const Forward<float>& pass, const Sizes& sizes) {
  with_shape(context, sizes, [&](auto shape) { shape.run(context, pass, sizes); });
}

}  // namespace tern::cuda::scaled_dot_product
