#include "cuda/attention/attention.cuh"
#include "cuda/attention/backward.cuh"
#include "cuda/elementwise.cuh"

namespace tern::cuda::scaled_dot_product {
namespace {

/// As in forward_halves.cu.
template <class T, class Body>
void with_shape(const Sizes& sizes, const Body& body) {
  const double filled = fill(sizes, sizes.queries, 128) + fill(sizes, sizes.keys, 128);
  const bool large = filled >= (sizes.causal ? 4 : 2.5);
  with_width(std::max(sizes.width, sizes.values), [&](auto width) {
    constexpr int W = width;
    using Large = HalfTile<T, 2>;
    using Small = HalfTile<T, 1>;
    if constexpr (W == 128)
      sizes.causal ? body(BackwardLaunch<Small, W, 32, 4, 2, 2>{}) : body(BackwardLaunch<Small, W, 64, 4, 1, 2>{});
    else if constexpr (W == 96)
      body(BackwardLaunch<Small, W, 64, 4, 2, 2>{});
    else if constexpr (W == 64)
      large ? body(BackwardLaunch<Large, W, 32, 4, 2, 2>{}) : body(BackwardLaunch<Small, W, 32, 4, 2, 3>{});
    else
      large ? body(BackwardLaunch<Large, W, 32, 4, 2, 3>{}) : body(BackwardLaunch<Small, W, 64, 4, 1, 4>{});
  });
}

/// As inner_kernel: eight lanes per row.
template <class T>
__global__ void half_inner_kernel(float* inner, const T* grad, const T* out, std::int64_t rows, Sizes sizes,
                                  bool packs) {
  begin_kernel();
  const std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  const int lane = static_cast<int>(threadIdx.x) % 8, width = sizes.values;
  float sum = 0;
  if (row < rows) {
    grad =
        sizes.of_head(grad, sizes.grad, static_cast<int>(row / sizes.queries)) + row % sizes.queries * sizes.grad.row;
    out = sizes.of_head(out, sizes.out, static_cast<int>(row / sizes.queries)) + row % sizes.queries * sizes.out.row;
    if (packs) {
      for (int i = lane * 8; i < width; i += 64) {
        const Pack<float, 8> left = load<8>(grad + i), right = load<8>(out + i);
#pragma unroll
        for (int part = 0; part < 8; ++part) sum = fmaf(left.value[part], right.value[part], sum);
      }
    } else {
      for (int i = lane; i < width; i += 8) sum = fmaf(widened(grad[i]), widened(out[i]), sum);
    }
  }
#pragma unroll
  for (int distance = 1; distance < 8; distance *= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (row < rows && lane == 0) inner[row] = sum;
}

}  // namespace

template <class T>
std::size_t backward_shared(const Context&, const Sizes& sizes) {
  std::size_t bytes = 0;
  with_shape<T>(sizes, [&](auto shape) { bytes = shape.bytes; });
  return bytes;
}
template std::size_t backward_shared<BFloat16>(const Context&, const Sizes&);
template std::size_t backward_shared<Float16>(const Context&, const Sizes&);

template <class T>
void run_backward(Context& context, const Backward<T>& pass, const Sizes& sizes) {
  with_shape<T>(sizes, [&](auto shape) { shape.run(context, pass, sizes); });
}
template void run_backward(Context&, const Backward<BFloat16>&, const Sizes&);
template void run_backward(Context&, const Backward<Float16>&, const Sizes&);

template <class T>
void run_inner(const Context& context, float* inner, const T* grad, const T* out, const Sizes& sizes) {
  const std::int64_t rows = static_cast<std::int64_t>(sizes.heads) * sizes.queries;
  launch(context, Grid(static_cast<unsigned>(ceil_div(rows * 8, 256)), 256), half_inner_kernel<T>, inner, grad, out,
         rows, sizes, sizes.packs);
}
template void run_inner(const Context&, float*, const BFloat16*, const BFloat16*, const Sizes&);
template void run_inner(const Context&, float*, const Float16*, const Float16*, const Sizes&);

}  // namespace tern::cuda::scaled_dot_product
