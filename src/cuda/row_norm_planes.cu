// The gradients of group and instance normalisation. Each plane is summed once: its sums are terms of both the
// parameters' gradients and its row's means.

#include "cuda/row_norm_gradients.cuh"

namespace tern::cuda::row_normalization {
namespace {

// ---- sums of planes ----

/// A thread's few terms are added in S, all else in double. of_planes: [rows, channels].
template <int Threads, int V, class T>
__global__ void __launch_bounds__(block_threads<Threads>)
    sum_planes_kernel(const __grid_constant__ Rows rows, const __grid_constant__ Backward<T> pass, Sums* of_planes) {
  using S = Scalar<T>;
  begin_kernel();
  const std::int64_t area = rows.area;
  for_rows<Threads>(rows.count * rows.channels, gridDim.x, [&](std::int64_t plane) {
    const std::int64_t row = rows.row(plane * area);
    const T *const grad_y = pass.grad_y + plane * area, *const x = pass.x + plane * area;
    const S center = pass.center(row), inverse = pass.inverse_deviation[row];
    S gradients = 0, products = 0;
#pragma unroll 4
    for (std::int64_t i = Group<Threads>::rank() * V; i < area; i += Threads * V) {
      const Pack<S, V> gradient = load<V>(grad_y + i), in = load<V>(x + i);
#pragma unroll
      for (int lane = 0; lane < V; ++lane) {
        gradients += gradient.value[lane];
        products += gradient.value[lane] * ((in.value[lane] - center) * inverse);
      }
    }
    const Sums sums = Group<Threads>::reduce(Sums{gradients, products}, PlusSums{});
    if (Group<Threads>::rank() == 0) of_planes[plane] = sums;
  });
}

template <int V, class T>
void sum_planes(Context& context, const Rows& rows, const Backward<T>& pass, Sums* of_planes) {
  const std::int64_t planes = rows.count * rows.channels, packs = rows.area / V;
  const auto run = [&]<int Threads>(std::integral_constant<int, Threads>) {
    launch(context, group_grid<Threads>(planes), sum_planes_kernel<Threads, V, T>, rows, pass, of_planes);
  };
  if (packs <= 32)
    run(std::integral_constant<int, 8>{});
  else if (packs <= 128 || (packs <= 512 && planes >= 4 * many_rows))
    run(std::integral_constant<int, 32>{});
  else if (packs <= 1024)
    run(std::integral_constant<int, 128>{});
  else
    run(std::integral_constant<int, 512>{});
}

// ---- the gradients ----

constexpr int plane_threads = 256;

/// The sums of 32 parameters over the samples: threadIdx.x / 32 takes turns.
template <class T>
__device__ void sum_parameters(const Rows& rows, const Backward<T>& pass, const Sums* of_planes, std::int64_t tile) {
  constexpr int warps = plane_threads / 32;
  __shared__ Sums of_warp[warps][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t parameters = rows.groups * rows.channels, parameter = tile * 32 + lane;
  const std::int64_t samples = rows.count / rows.groups;
  Sums sums{0, 0};
  if (parameter < parameters) {
#pragma unroll 4
    for (std::int64_t n = warp; n < samples; n += warps) sums = PlusSums{}(sums, of_planes[n * parameters + parameter]);
  }
  of_warp[warp][lane] = sums;
  __syncthreads();
  if (warp > 0 || parameter >= parameters) return;
#pragma unroll
  for (int other = 1; other < warps; ++other) sums = PlusSums{}(sums, of_warp[other][lane]);
  ParameterSums<T>{pass.grad_weight, pass.grad_bias}.store(parameter, sums);
}

/// A row's means, for all threads of the block.
template <class T>
__device__ Sums row_means(const Rows& rows, const Backward<T>& pass, const Sums* of_planes, std::int64_t row) {
  const std::int64_t first = rows.first_parameter(row);
  Sums sums{0, 0};
  for (std::int64_t channel = threadIdx.x; channel < rows.channels; channel += plane_threads) {
    const Sums plane = of_planes[row * rows.channels + channel];
    const double scale = pass.weight == nullptr ? 1 : pass.weight[first + channel];
    Sums weighted{plane.gradient * scale, plane.product * scale};
    if (!::isfinite(scale)) {  // the signs of the elements matter
      weighted = {0, 0};
      for (std::int64_t i = 0; i < rows.area; ++i)
        weighted = PlusSums{}(weighted, pass.weighted(rows, row, channel * rows.area + i));
    }
    sums = PlusSums{}(sums, weighted);
  }
  return pass.means(rows, reduce_block(sums, PlusSums{}));
}

/// The first blocks sum the parameters' gradients, 32 each, which take longest. Then part `item` % parts of row `item`
/// / parts: `part` elements. of_planes: [rows, channels].
template <int V, class T>
__global__ void __launch_bounds__(plane_threads)
    differentiate_planes_kernel(const __grid_constant__ Rows rows, const __grid_constant__ Backward<T> pass,
                                const Sums* of_planes, unsigned parameter_blocks, std::int64_t parts,
                                std::int64_t part) {
  begin_kernel();
  if (blockIdx.x < parameter_blocks) return sum_parameters(rows, pass, of_planes, blockIdx.x);
  const std::int64_t step = gridDim.x - parameter_blocks;
  for (std::int64_t item = blockIdx.x - parameter_blocks; item < rows.count * parts; item += step) {
    const std::int64_t row = item / parts, begin = (item - row * parts) * part;
    const std::int64_t end = min(begin + part, rows.length);
    const Sums means = row_means(rows, pass, of_planes, row);
#pragma unroll 4
    for (std::int64_t i = begin + threadIdx.x * V; i < end; i += plane_threads * V)
      pass.template write_pack<V>(rows, row, i, means);
  }
}

}  // namespace

template <int V, class T>
void differentiate_planes(Context& context, const Rows& rows, const Backward<T>& pass) {
  const std::int64_t planes = rows.count * rows.channels;
  Scratch of_planes(context, static_cast<std::size_t>(planes) * sizeof(Sums));
  Sums* const sums = of_planes.as<Sums>();
  if (rows.area % V == 0)
    sum_planes<V>(context, rows, pass, sums);
  else
    sum_planes<1>(context, rows, pass, sums);
  constexpr std::int64_t turn = plane_threads * V;
  // Enough blocks for a large card, each of which has more to write than sums to read.
  const std::int64_t wanted = ceil_div(2048, rows.count), most = ceil_div(rows.length, 4 * turn + 2 * rows.channels);
  const std::int64_t part = ceil_div(ceil_div(rows.length, std::min(wanted, most)), turn) * turn;
  const std::int64_t parts = pass.grad_x == nullptr ? 0 : ceil_div(rows.length, part);
  const bool parameters = pass.grad_weight != nullptr || pass.grad_bias != nullptr;
  const auto parameter_blocks = static_cast<unsigned>(parameters ? ceil_div(rows.groups * rows.channels, 32) : 0);
  const std::int64_t items = std::min<std::int64_t>(rows.count * parts, 1 << 30);
  launch(context, Grid(parameter_blocks + static_cast<unsigned>(items), plane_threads),
         differentiate_planes_kernel<V, T>, rows, pass, sums, parameter_blocks, parts, part);
}

#define TERN_INSTANTIATE(T)                                                            \
  template void differentiate_planes<1, T>(Context&, const Rows&, const Backward<T>&); \
  template void differentiate_planes<pack_of_registers<T>, T>(Context&, const Rows&, const Backward<T>&);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
TERN_INSTANTIATE(BFloat16)
TERN_INSTANTIATE(Float16)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda::row_normalization
