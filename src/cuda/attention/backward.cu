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
    if constexpr (W >= 96) {
      tensor ? body(BackwardLaunch < TensorTile<1>, W, 32, 4, W == 96 ? 2 : 1, 2 > {})
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

/// inner = sum of grad * out over each row of `width`; one thread per row. It adds in the order of FusedTile::scores,
/// so that a row with all its weight on one key has a gradient of exactly 0. `packs`: rows are multiples of 16 bytes.
__global__ void inner_kernel(float* inner, const float* grad, const float* out, std::int64_t rows, Sizes sizes,
                             bool packs) {
  begin_kernel();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const int width = sizes.values;
  grad = sizes.of_head(grad, sizes.grad, static_cast<int>(row / sizes.queries)) + row % sizes.queries * sizes.grad.row;
  out = sizes.of_head(out, sizes.out, static_cast<int>(row / sizes.queries)) + row % sizes.queries * sizes.out.row;
  float sum = 0;
  if (packs) {
#pragma unroll 4
    for (int i = 0; i < width; i += 4) {
      const float4 left = *reinterpret_cast<const float4*>(grad + i), right = *reinterpret_cast<const float4*>(out + i);
      sum = fmaf(left.x, right.x, sum);
      sum = fmaf(left.y, right.y, sum);
      sum = fmaf(left.z, right.z, sum);
      sum = fmaf(left.w, right.w, sum);
    }
  } else {
    for (int i = 0; i < width; ++i) sum = fmaf(grad[i], out[i], sum);
  }
  inner[row] = sum;
}

}  // namespace

template <>
std::size_t backward_shared<float>(const Context& context, const Sizes& sizes) {
  std::size_t bytes = 0;
  with_shape(context, sizes, [&](auto shape) { bytes = shape.bytes; });
  return bytes;
}

template <>
void run_backward<float>(Context& context, const Backward<float>& pass, const Sizes& sizes) {
  with_shape(context, sizes, [&](auto shape) { shape.run(context, pass, sizes); });
}

template <>
void run_inner<float>(const Context& context, float* inner, const float* grad, const float* out, const Sizes& sizes) {
  const std::int64_t rows = static_cast<std::int64_t>(sizes.heads) * sizes.queries;
  launch(context, Grid(static_cast<unsigned>(ceil_div(rows, 128)), 128), inner_kernel, inner, grad, out, rows, sizes,
         sizes.packs);
}

}  // namespace tern::cuda::scaled_dot_product
