#include "cuda/attention/attention.cuh"
#include "cuda/attention/backward.cuh"
#include "cuda/elementwise.cuh"

namespace tern::cuda::scaled_dot_product {
namespace {

/// As in forward.cu. With causal attention half of a block's scores are masked.
template <class Body>
void with_shape(const Context& context, const Sizes& sizes, const Body& body) {
  const double filled = fill(sizes, sizes.queries, 128) + fill(sizes, sizes.keys, 128);
  const bool large = filled >= (sizes.causal ? 4 : 1.9);
  const bool tensor = on_tensor_cores(context);
  with_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    if constexpr (W == 128) {
      tensor ? body(BackwardLaunch<TensorTile<1>, W, 32, 4, 1, 2>{})
             : body(BackwardLaunch<FusedTile<4>, W, 32, 4, 1, 2>{});
    } else if constexpr (W == 64) {
      if (tensor)
        large ? body(BackwardLaunch<TensorTile<2>, W, 32, 4, 1, 2>{})
              : body(BackwardLaunch<TensorTile<1>, W, 32, 4, 2, 3>{});
      else
        large ? body(BackwardLaunch<FusedTile<8>, W, 32, 4, 1, 2>{})
              : body(BackwardLaunch<FusedTile<4>, W, 64, 4, 1, 2>{});
    } else if (tensor) {
      large ? body(BackwardLaunch<TensorTile<2>, W, 64, 4, 1, 2>{})
            : body(BackwardLaunch<TensorTile<1>, W, 64, 4, 2, 3>{});
    } else {
      large ? body(BackwardLaunch<FusedTile<8, 1>, W, 64, 4, 1, 2>{})
            : body(BackwardLaunch<FusedTile<4>, W, 64, 4, 1, 2>{});
    }
  });
}

}  // namespace

template <>
std::size_t backward_shared<float>(const Context& context, const Sizes& sizes) {
  std::size_t bytes = 0;
  with_shape(context, sizes, [&](auto shape) { bytes = shape.bytes; });
  return bytes;
}

template <>
void run_backward<float>(const Context& context, const Backward<float>& pass, const Sizes& sizes) {
  with_shape(context, sizes, [&](auto shape) { shape.run(context, pass, sizes); });
}

template <>
void run_inner<float>(const Context& context, float* inner, const float* grad, const float* out, const Sizes& sizes) {
  const std::int64_t rows = static_cast<std::int64_t>(sizes.heads) * sizes.queries;
  launch(context, Grid(static_cast<unsigned>(ceil_div(rows, 128)), 128), inner_kernel, inner, grad, out, rows, sizes,
         sizes.packs);
}

}  // namespace tern::cuda::scaled_dot_product
