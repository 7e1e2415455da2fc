#pragma once
// Copies around products of planes: weights and planes with whole lanes, and sums over images (product_planes.cu,
// product_taps.cu).

#include "cuda/elementwise.cuh"
#include "cuda/fused.cuh"

namespace tern::cuda::convolution {
namespace {

using Divide = Divisor<std::uint32_t>;
constexpr int tile_side = 32, tile_lines = 8;

/// to [columns, whole rows] from [rows, columns], with zeros behind the rows.
template <class T>
__global__ void __launch_bounds__(tile_side* tile_lines)
    transpose_kernel(T* to, const T* from, int rows, int columns, int whole_rows) {
  __shared__ T tile[tile_side][tile_side + 1];
  begin_kernel();
  const int x = static_cast<int>(threadIdx.x), first_row = static_cast<int>(blockIdx.y) * tile_side,
            first_column = static_cast<int>(blockIdx.x) * tile_side;
  for (int y = static_cast<int>(threadIdx.y); y < tile_side; y += tile_lines) {
    const int row = first_row + y, column = first_column + x;
    tile[y][x] = row < rows && column < columns ? from[static_cast<std::int64_t>(row) * columns + column] : T{};
  }
  __syncthreads();
  for (int y = static_cast<int>(threadIdx.y); y < tile_side; y += tile_lines) {
    const int row = first_row + x, column = first_column + y;
    if (row < whole_rows && column < columns) to[static_cast<std::int64_t>(column) * whole_rows + row] = tile[x][y];
  }
}

/// Parts of a bias that the product's factors hold exactly: tensor cores read 11 digits of a float.
template <class T>
constexpr int bias_parts = is_half<T> ? 1 : 3;

/// to [rows, whole] from weight [rows, columns], with the parts of a bias behind the columns, and zeros.
template <class T>
__global__ void weight_and_bias_kernel(T* to, const T* weight, const T* bias, std::uint32_t count, Divide whole,
                                       int columns) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads())) {
    std::uint32_t row = i;
    const auto column = static_cast<int>(whole.split(row));
    T value{};
    if (column < columns) {
      value = weight[static_cast<std::int64_t>(row) * columns + column];
    } else if (column < columns + bias_parts<T>) {
      value = bias[row];
      if constexpr (!is_half<T>)
        for (int part = 0; part < bias_parts<T>; ++part) {
          const bool finite = ::isfinite(value);
          const float high = finite ? __uint_as_float(__float_as_uint(value) & 0xffffe000u) : value;
          if (part == column - columns) {
            value = high;
            break;
          }
          value = finite ? value - high : 0.0f;
        }
    }
    to[i] = value;
  }
}

/// to [N, rows, plane] from [N, from_rows, plane], in packs: then `ones` rows of ones, and zeros.
template <int V, class T>
__global__ void __launch_bounds__(256) copy_planes_kernel(T* to, const T* from, std::uint32_t packs, Divide plane,
                                                          Divide rows, std::uint32_t from_rows, std::uint32_t ones) {
  begin_kernel();
#pragma unroll 4
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < packs;
       i += static_cast<std::uint32_t>(global_threads())) {
    std::uint32_t n = i;
    const std::uint32_t at = plane.split(n), row = rows.split(n);
    Pack<T, V> pack{};
    if (row < from_rows)
      pack = *reinterpret_cast<const Pack<T, V>*>(
          from + ((static_cast<std::int64_t>(n) * from_rows + row) * plane.value() + at) * V);
    else if (row < from_rows + ones)
#pragma unroll
      for (int lane = 0; lane < V; ++lane) put(pack.value[lane], 1.0f);
    *reinterpret_cast<Pack<T, V>*>(to + static_cast<std::int64_t>(i) * V) = pack;
  }
}

/// y = activation(in + bias); in [N, from_rows, plane] has more rows than y.
template <int V, bool Gelu, class T, class In>
__global__ void __launch_bounds__(256)
    finish_planes_kernel(T* y, const In* in, const T* bias, std::uint32_t packs, Divide plane, Divide rows,
                         std::uint32_t from_rows, Activation activation) {
  begin_kernel();
#pragma unroll 4
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < packs;
       i += static_cast<std::uint32_t>(global_threads())) {
    std::uint32_t n = i;
    const std::uint32_t at = plane.split(n), row = rows.split(n);
    const Pack<float, V> sums =
        load<V>(in + ((static_cast<std::int64_t>(n) * from_rows + row) * plane.value() + at) * V);
    const float shift = bias == nullptr ? 0.0f : widened(bias[row]);
    Pack<float, V> out;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      const float value = bias == nullptr ? sums.value[lane] : sums.value[lane] + shift;
      out.value[lane] = Gelu ? value * normal_at(value).below : activate(value, activation);
    }
    store<V>(y + static_cast<std::int64_t>(i) * V, out);
  }
}

/// A weight's gradient [O, C]: sums, in order, of `slices` that have such steps. C: elements of a window.
template <class T>
__global__ void sum_images_kernel(T* to, const float* from, std::uint32_t count, Divide C, int slices,
                                  std::int64_t slice, int step_o, int step_c) {
  begin_kernel();
  const auto i = static_cast<std::uint32_t>(global_thread());
  if (i >= count) return;
  std::uint32_t o = i;
  const std::uint32_t c = C.split(o);
  const float* const at = from + static_cast<std::int64_t>(o) * step_o + static_cast<std::int64_t>(c) * step_c;
  float sum = 0;
#pragma unroll 8
  for (int n = 0; n < slices; ++n) sum += at[n * slice];
  put(to[i], sum);
}

}  // namespace
}  // namespace tern::cuda::convolution
