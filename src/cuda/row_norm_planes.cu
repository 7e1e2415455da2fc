// The gradients of group and instance normalisation. Each plane is summed once: its sums are terms of both the
// parameters' gradients and its row's means.

#include "cuda/row_norm_gradients.cuh"

namespace tern::cuda::row_normalization {
namespace {

constexpr int plane_threads = 256;

/// Part `item` % parts of row `item` / parts: `part` elements. of_planes: [rows, channels].
template <int V, class T>
__global__ void __launch_bounds__(plane_threads)
    differentiate_planes_kernel(const __grid_constant__ Rows rows, const __grid_constant__ Backward<T> pass,
                                const Sums* of_planes, std::int64_t parts, std::int64_t part) {
  begin_kernel();
  for (std::int64_t item = blockIdx.x; item < rows.count * parts; item += gridDim.x) {
    const std::int64_t row = item / parts, begin = (item - row * parts) * part;
    const std::int64_t end = min(begin + part, rows.length), first = rows.first_parameter(row);
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
    const Sums means = pass.means(rows, reduce_block(sums, PlusSums{}));
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
  reduce<T>(context, Axis{planes, rows.area, 1}, StoredSums{sums}, Terms<T>{rows, pass, false});
  if (pass.grad_x != nullptr) {
    constexpr std::int64_t turn = plane_threads * V;
    // Enough blocks for a large card, each of which has more to write than sums to read.
    const std::int64_t wanted = ceil_div(2048, rows.count), most = ceil_div(rows.length, 4 * turn + 2 * rows.channels);
    const std::int64_t part = ceil_div(ceil_div(rows.length, std::min(wanted, most)), turn) * turn;
    const std::int64_t parts = ceil_div(rows.length, part);
    launch(context, Grid(static_cast<unsigned>(std::min<std::int64_t>(rows.count * parts, 1 << 30)), plane_threads),
           differentiate_planes_kernel<V, T>, rows, pass, sums, parts, part);
  }
  if (pass.grad_weight != nullptr || pass.grad_bias != nullptr)
    reduce<Sums>(context, Axis{1, rows.count / rows.groups, rows.groups * rows.channels},
                 ParameterSums<T>{pass.grad_weight, pass.grad_bias}, Elements<Sums>{sums});
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
