#include "cuda/convolution/planes.cuh"

namespace tern::cuda::convolution {
namespace {

/// A block adds the planes of one channel.
template <class T>
__global__ void __launch_bounds__(256) bias_kernel(T* to, const T* g, std::int64_t N, std::int64_t area) {
  __shared__ float sums[256];
  begin_kernel();
  const std::int64_t o = blockIdx.x, O = gridDim.x;
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < N * area; i += 256) sum += widened(g[(i / area * O + o) * area + i % area]);
  sums[threadIdx.x] = sum;
  for (unsigned half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) put(to[o], sums[0]);
}

}  // namespace

template <class T>
void sum_planes(const Context& context, T* to, const T* g, std::int64_t N, std::int64_t O, std::int64_t area) {
  launch(context, Grid(static_cast<unsigned>(O), 256), bias_kernel<T>, to, g, N, area);
}
template void sum_planes(const Context&, float*, const float*, std::int64_t, std::int64_t, std::int64_t);
template void sum_planes(const Context&, BFloat16*, const BFloat16*, std::int64_t, std::int64_t, std::int64_t);
template void sum_planes(const Context&, Float16*, const Float16*, std::int64_t, std::int64_t, std::int64_t);

}  // namespace tern::cuda::convolution
