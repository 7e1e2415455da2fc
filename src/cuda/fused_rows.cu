#include <cstdlib>

#include "cuda/elementwise.cuh"
#include "cuda/fused_rows.cuh"

namespace tern::cuda {
namespace {

/// `Gelu`: instead of `activation`, in line, because a call for each element takes longer than its memory.
template <bool Gelu, class Out, class In, class Index>
__global__ void finish_rows_kernel(Out* y, const In* in, const Out* bias, Index packs, Divisor<Index> packs_per_row,
                                   std::int64_t pitch, Activation activation) {
  begin_kernel();
  const auto step = static_cast<Index>(global_threads());
  for (auto i = static_cast<Index>(global_thread()); i < packs; i += step) {
    const Pack<float, 4> values = load<4>(in + static_cast<std::int64_t>(i) * 4);
    Index row = i;
    const auto column = static_cast<std::int64_t>(packs_per_row.split(row)) * 4;
    // A bias may have any alignment, so it is read by elements (from the cache).
    const Out* added = bias == nullptr ? nullptr : bias + column;
    Pack<float, 4> result;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float value = added == nullptr ? values.value[lane] : values.value[lane] + widened(added[lane]);
      result.value[lane] = Gelu ? value * normal_at(value).below : activate(value, activation);
    }
    store<4>(y + static_cast<std::int64_t>(row) * pitch + column, result);
  }
}

constexpr int row_threads = 256;

/// Threads of a block: over a tile of packs of a row, and over rows.
struct RowTiles {
  std::int64_t tiles, lanes, rows;
  explicit RowTiles(std::int64_t channels)
      : tiles(ceil_div(channels, 128)), lanes(ceil_div(ceil_div(channels, 4), tiles)), rows(row_threads / lanes) {}
};

/// Up to four elements, with zeros behind the last.
template <bool Whole, class T>
__device__ Pack<float, 4> load_some(const T* from, int count) {
  if constexpr (Whole) {
    return load<4>(from);
  } else {
    Pack<float, 4> pack{};
#pragma unroll
    for (int lane = 0; lane < 4; ++lane)
      if (lane < count) pack.value[lane] = widened(from[lane]);
    return pack;
  }
}
template <bool Whole, class T>
__device__ void store_some(T* to, const Pack<float, 4>& pack, int count) {
  if constexpr (Whole) {
    store<4>(to, pack);
  } else {
#pragma unroll
    for (int lane = 0; lane < 4; ++lane)
      if (lane < count) put(to[lane], pack.value[lane]);
  }
}

/// The elements of load_some, as they are if there are four.
template <bool Whole, class T>
__device__ auto fetch_some(const T* from, int count) {
  if constexpr (Whole)
    return *reinterpret_cast<const Pack<T, 4>*>(from);
  else
    return load_some<false>(from, count);
}

/// `Whole`: rows are packs, in all arrays; else rows of g may be longer, with zeros behind the channels.
template <bool Whole, class Out, class In, int most_at_once = 4>
__global__ void through_rows_kernel(Out* g, float* partials, const In* __restrict__ grad_y, const In* __restrict__ y,
                                    std::int64_t rows, int channels, std::int64_t pitch, int g_pitch,
                                    Activation activation) {
  __shared__ Pack<float, 4> shared[row_threads];
  begin_kernel();
  const int pack = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  const int left = channels - pack * 4, left_of_g = g_pitch - pack * 4;  // channels from the pack's first
  const bool inside = left_of_g > 0;
  Pack<float, 4> sum{};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  constexpr int at_once = Whole && sizeof(In) == 2 ? most_at_once : 1;  // rows whose loads are in flight together
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; inside && first < rows;
       first += at_once * step) {
    using Some = decltype(fetch_some<Whole>(y, 0));
    Some gradients[at_once], outs[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const std::int64_t row = first + i * step, from = row * pitch + pack * 4;
      if (row >= rows) break;
      gradients[i] = fetch_some<Whole>(grad_y + from, left);
      if (activation != Activation::none) outs[i] = fetch_some<Whole>(y + from, left);
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const std::int64_t row = first + i * step;
      if (row >= rows) break;
      Pack<float, 4> gradient;
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        gradient.value[lane] = widened(gradients[i].value[lane]);
        if (activation != Activation::none)
          gradient.value[lane] = through_activation(gradient.value[lane], widened(outs[i].value[lane]), activation);
      }
      if (g != nullptr) store_some<Whole>(g + row * g_pitch + pack * 4, gradient, left_of_g);
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) sum.value[lane] += gradient.value[lane];
    }
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
  store_some<Whole>(partials + static_cast<std::int64_t>(blockIdx.x) * channels + pack * 4, sum, left);
}

/// A weight and a bias whose partial gradients are adjacent.
template <class T>
struct Gradients {
  T *weight, *bias;
  std::int64_t weights, channels;
  __device__ void set(std::int64_t at, Scalar<T> value) const {
    if (at < weights) {
      if (weight != nullptr) put(weight[at], value);
    } else if (bias != nullptr) {
      put(bias[at - weights], value);
    }
  }
};

// 32 sums by several lanes, each of which adds its slices in order.
template <class T, int slice_lanes>
__global__ void sum_slices_kernel(Gradients<T> to, const Scalar<T>* partials, std::int64_t slices) {
  __shared__ Scalar<T> partial[slice_lanes][33];
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x, stride = to.weights + to.channels;
  begin_kernel();
  Scalar<T> sum = 0;
  if (at < stride) {
#pragma unroll 8
    for (std::int64_t slice = threadIdx.y; slice < slices; slice += slice_lanes) sum += partials[slice * stride + at];
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || at >= stride) return;
  Scalar<T> total = 0;
#pragma unroll
  for (int i = 0; i < slice_lanes; ++i) total += partial[i][threadIdx.x];
  to.set(at, total);
}

// Many sums: V adjacent ones per thread.
template <class T, int V>
__global__ void sum_long_slices_kernel(Gradients<T> to, const Scalar<T>* partials, std::int64_t slices) {
  const std::int64_t at = global_thread() * V, stride = to.weights + to.channels;
  begin_kernel();
  if (at >= stride) return;
  Pack<Scalar<T>, V> sum{};
#pragma unroll 8
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    const Pack<Scalar<T>, V> part = load<V>(partials + slice * stride + at);
#pragma unroll
    for (int lane = 0; lane < V; ++lane) sum.value[lane] += part.value[lane];
  }
#pragma unroll
  for (int lane = 0; lane < V; ++lane) to.set(at + lane, sum.value[lane]);
}

}  // namespace

template <class Out, class In>
void finish_rows(const Context& context, Out* y, const In* in, const Out* bias, const Rows& rows,
                 Activation activation) {
  const std::int64_t packs = rows.count * rows.channels / 4;
  with_index(packs, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, item_grid(packs),
           activation == Activation::gelu ? finish_rows_kernel<true, Out, In, Index>
                                          : finish_rows_kernel<false, Out, In, Index>,
           y, in, bias, static_cast<Index>(packs), Divisor<Index>(rows.channels / 4), rows.pitch, activation);
  });
}

std::int64_t row_slices(const Rows& rows) {
  const RowTiles tiles(rows.channels);
  const std::int64_t most = ceil_div(static_cast<std::int64_t>(card().multiprocessors) * 8, tiles.tiles);
  return std::max<std::int64_t>(1, std::min(most, ceil_div(rows.count, tiles.rows * 4)));
}

template <class Out, class In>
void through_rows(const Context& context, Out* g, float* partials, const In* grad_y, const In* y, const Rows& rows,
                  Activation activation, std::int64_t g_pitch) {
  if (g_pitch == 0) g_pitch = rows.channels;
  const char* const old = std::getenv("TERN_OLD_ROWS");
  const RowTiles tiles(g_pitch);
  const bool whole = rows.channels % 4 == 0 && rows.pitch % 4 == 0 && g_pitch == rows.channels && aligned<4>(g) &&
                     aligned<4>(grad_y) && aligned<4>(y);
  launch(context,
         Grid(dim3(static_cast<unsigned>(row_slices(rows)), static_cast<unsigned>(tiles.tiles)),
              dim3(static_cast<unsigned>(tiles.lanes), static_cast<unsigned>(tiles.rows))),
         !whole           ? through_rows_kernel<false, Out, In>
         : old == nullptr ? through_rows_kernel<true, Out, In>
         : old[0] == '2'  ? through_rows_kernel<true, Out, In, 2>
                          : through_rows_kernel<true, Out, In, 1>,
         g, partials, grad_y, y, rows.count, static_cast<int>(rows.channels), rows.pitch, static_cast<int>(g_pitch),
         activation);
}

template <class T>
void sum_slices(const Context& context, T* grad_weight, T* grad_bias, const Scalar<T>* partials, std::int64_t slices,
                std::int64_t weights, std::int64_t channels) {
  constexpr int V = pack_of_registers<T>;
  const std::int64_t sums = weights + channels;
  const Gradients<T> to{grad_weight, grad_bias, weights, channels};
  const auto blocks = [sums](std::int64_t per_block) { return static_cast<unsigned>(ceil_div(sums, per_block)); };
  if (sums < 8192)
    launch(context, Grid(blocks(32), dim3(32, 32)), sum_slices_kernel<T, 32>, to, partials, slices);
  else if (sums < 32768 && slices > 16)
    launch(context, Grid(blocks(32), dim3(32, 8)), sum_slices_kernel<T, 8>, to, partials, slices);
  else if (sums % V == 0 && aligned<V>(partials))
    launch(context, Grid(blocks(128 * V), 128), sum_long_slices_kernel<T, V>, to, partials, slices);
  else
    launch(context, Grid(blocks(128), 128), sum_long_slices_kernel<T, 1>, to, partials, slices);
}

#define TERN_INSTANTIATE(Out, In) \
  template void finish_rows<Out, In>(const Context&, Out*, const In*, const Out*, const Rows&, Activation);
TERN_INSTANTIATE(float, float)
TERN_INSTANTIATE(float, bf16)
TERN_INSTANTIATE(BFloat16, float)
TERN_INSTANTIATE(Float16, float)
#undef TERN_INSTANTIATE
#define TERN_INSTANTIATE(Out, In)                                                                                  \
  template void through_rows<Out, In>(const Context&, Out*, float*, const In*, const In*, const Rows&, Activation, \
                                      std::int64_t);
TERN_INSTANTIATE(float, float)
TERN_INSTANTIATE(bf16, float)
TERN_INSTANTIATE(BFloat16, BFloat16)
TERN_INSTANTIATE(Float16, Float16)
#undef TERN_INSTANTIATE
#define TERN_INSTANTIATE(T) \
  template void sum_slices<T>(const Context&, T*, T*, const Scalar<T>*, std::int64_t, std::int64_t, std::int64_t);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
TERN_INSTANTIATE(BFloat16)
TERN_INSTANTIATE(Float16)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda
