#include "cuda/elementwise.cuh"
#include "cuda/fused_rows.cuh"

namespace tern::cuda {
namespace {

template <class In>
__global__ void finish_rows_kernel(float* y, const In* in, const float* bias, std::int64_t packs,
                                   std::int64_t packs_per_row, Activation activation) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < packs; i += global_threads()) {
    const Pack<In, 4> values = load<4>(in + i * 4);
    // A bias may begin anywhere, so it is read by elements (from the cache).
    const float* added = bias == nullptr ? nullptr : bias + i % packs_per_row * 4;
    Pack<float, 4> result;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      float value;
      convert(value, values.value[lane]);
      result.value[lane] = activate(added == nullptr ? value : value + added[lane], activation);
    }
    store(y + i * 4, result);
  }
}

constexpr int row_threads = 256;

/// Threads of a block over a tile of packs of a row, and over rows.
struct RowTiles {
  std::int64_t tiles, lanes, rows;
  explicit RowTiles(std::int64_t channels)
      : tiles(ceil_div(channels / 4, 32)), lanes(ceil_div(channels / 4, tiles)), rows(row_threads / lanes) {}
};

template <class Out>
__global__ void through_rows_kernel(Out* g, float* partials, const float* __restrict__ grad_y,
                                    const float* __restrict__ y, std::int64_t rows, int packs, Activation activation) {
  __shared__ Pack<float, 4> shared[row_threads];
  begin_kernel();
  const int pack = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  const bool inside = pack < packs;
  Pack<float, 4> sum{};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; inside && row < rows;
       row += step) {
    const std::int64_t at = (row * packs + pack) * 4;
    Pack<float, 4> gradient = load<4>(grad_y + at);
    if (activation != Activation::none) {
      const Pack<float, 4> out = load<4>(y + at);
#pragma unroll
      for (int lane = 0; lane < 4; ++lane)
        gradient.value[lane] = through_activation(gradient.value[lane], out.value[lane], activation);
    }
    if (g != nullptr) {
      Pack<Out, 4> written;
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) convert(written.value[lane], gradient.value[lane]);
      store(g + at, written);
    }
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) sum.value[lane] += gradient.value[lane];
  }
  if (partials == nullptr) return;
  shared[threadIdx.y * blockDim.x + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || !inside) return;
  for (unsigned i = 1; i < blockDim.y; ++i) {
    const Pack<float, 4> other = shared[i * blockDim.x + threadIdx.x];
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) sum.value[lane] += other.value[lane];
  }
  store(partials + (static_cast<std::int64_t>(blockIdx.x) * packs + pack) * 4, sum);
}

// The partial gradients of the slices are added in order, eight lanes at a time.
constexpr int slice_lanes = 8;
template <class T>
__global__ void sum_slices_kernel(T* grad_weight, T* grad_bias, const T* partials, std::int64_t slices,
                                  std::int64_t weights, std::int64_t channels) {
  __shared__ T partial[slice_lanes][33];
  begin_kernel();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x, stride = weights + channels;
  T sum = 0;
  if (at < stride) {
#pragma unroll 4
    for (std::int64_t slice = threadIdx.y; slice < slices; slice += slice_lanes) sum += partials[slice * stride + at];
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || at >= stride) return;
  T total = 0;
  for (int i = 0; i < slice_lanes; ++i) total += partial[i][threadIdx.x];
  if (at < weights) {
    if (grad_weight != nullptr) grad_weight[at] = total;
  } else if (grad_bias != nullptr) {
    grad_bias[at - weights] = total;
  }
}

}  // namespace

template <class In>
void finish_rows(const Context& context, float* y, const In* in, const float* bias, std::int64_t rows,
                 std::int64_t channels, Activation activation) {
  const std::int64_t packs = rows * channels / 4;
  launch(context, Grid(blocks_for(packs), 256), finish_rows_kernel<In>, y, in, bias, packs, channels / 4, activation);
}

std::int64_t row_slices(std::int64_t rows, std::int64_t channels) {
  const RowTiles tiles(channels);
  const std::int64_t most = ceil_div(static_cast<std::int64_t>(card().multiprocessors) * 8, tiles.tiles);
  return std::max<std::int64_t>(1, std::min(most, ceil_div(rows, tiles.rows * 4)));
}

template <class Out>
void through_rows(const Context& context, Out* g, float* partials, const float* grad_y, const float* y,
                  std::int64_t rows, std::int64_t channels, Activation activation) {
  const RowTiles tiles(channels);
  launch(context,
         Grid(dim3(static_cast<unsigned>(row_slices(rows, channels)), static_cast<unsigned>(tiles.tiles)),
              dim3(static_cast<unsigned>(tiles.lanes), static_cast<unsigned>(tiles.rows))),
         through_rows_kernel<Out>, g, partials, grad_y, y, rows, static_cast<int>(channels / 4), activation);
}

template <class T>
void sum_slices(const Context& context, T* grad_weight, T* grad_bias, const T* partials, std::int64_t slices,
                std::int64_t weights, std::int64_t channels) {
  launch(context, Grid(static_cast<unsigned>(ceil_div(weights + channels, 32)), dim3(32, slice_lanes)),
         sum_slices_kernel<T>, grad_weight, grad_bias, partials, slices, weights, channels);
}

template void finish_rows<float>(const Context&, float*, const float*, const float*, std::int64_t, std::int64_t,
                                 Activation);
template void finish_rows<bf16>(const Context&, float*, const bf16*, const float*, std::int64_t, std::int64_t,
                                Activation);
template void through_rows<float>(const Context&, float*, float*, const float*, const float*, std::int64_t,
                                  std::int64_t, Activation);
template void through_rows<bf16>(const Context&, bf16*, float*, const float*, const float*, std::int64_t, std::int64_t,
                                 Activation);

template void sum_slices<float>(const Context&, float*, float*, const float*, std::int64_t, std::int64_t, std::int64_t);
template void sum_slices<double>(const Context&, double*, double*, const double*, std::int64_t, std::int64_t,
                                 std::int64_t);

}  // namespace tern::cuda
