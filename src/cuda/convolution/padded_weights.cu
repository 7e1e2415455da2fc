#include <algorithm>

#include "cuda/convolution/padded_weights.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/products/padded.cuh"

namespace tern::cuda::convolution {
namespace {

using Divide = Divisor<std::uint32_t>;

/// The place of an element of a weight [groups outputs, inputs, taps] in one with other channels; -1: it has none.
struct WeightPlace {
  Divide taps, inputs, outputs;
  int other_inputs, other_outputs;
  __device__ std::int64_t operator()(std::uint32_t i) const {
    const auto tap = static_cast<int>(taps.split(i)), c = static_cast<int>(inputs.split(i)),
               o = static_cast<int>(outputs.split(i)), group = static_cast<int>(i);
    if (c >= other_inputs || o >= other_outputs) return -1;
    return ((static_cast<std::int64_t>(group) * other_outputs + o) * other_inputs + c) *
               static_cast<std::int64_t>(taps.value()) +
           tap;
  }
};
template <class To, class From>
__global__ void weight_kernel(To* to, const From* from, std::uint32_t count, WeightPlace place) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads())) {
    const std::int64_t at = place(i);
    convert(to[i], at < 0 ? From{} : from[at]);
  }
}

struct Taps {
  int channels, lanes, taps;  ///< of a row
  int lanes_each;             ///< of a block
  int rows;                   ///< of a group
  Divide padded_rows;
};
constexpr int taps_lanes = 32, taps_rows = 8, most_taps = 128;

/// [written rows, taps, lanes] from a weight [rows, channels, taps], through shared memory.
template <class To, class From>
__global__ void __launch_bounds__(taps_lanes* taps_rows)
    order_weight_kernel(To* to, const From* weight, const __grid_constant__ Taps s) {
  extern __shared__ float tile[];
  begin_kernel();
  const int first = static_cast<int>(blockIdx.x) * s.lanes_each, x = static_cast<int>(threadIdx.x),
            thread = static_cast<int>(threadIdx.y) * taps_lanes + x;
  int group, o;
  s.padded_rows.split(static_cast<int>(blockIdx.y), group, o);
  const std::int64_t row = o < s.rows ? static_cast<std::int64_t>(group) * s.rows + o : -1;
  const int count = row < 0 ? 0 : max(0, min(s.lanes_each, s.channels - first)) * s.taps;
#pragma unroll 4
  for (int i = thread; i < count; i += taps_lanes * taps_rows)
    tile[i] = widened(weight[(row * s.channels + first) * s.taps + i]);
  __syncthreads();
  To* const out = to + static_cast<std::int64_t>(blockIdx.y) * s.taps * s.lanes + first;
  for (int lane = x; lane < min(s.lanes_each, s.lanes - first); lane += taps_lanes)
    for (int tap = static_cast<int>(threadIdx.y); tap < s.taps; tap += taps_rows)
      put(out[static_cast<std::int64_t>(tap) * s.lanes + lane],
          lane * s.taps + tap < count ? tile[lane * s.taps + tap] : 0.0f);
}

/// The inverse, for the rows and channels of the weight.
template <class To, class From>
__global__ void __launch_bounds__(taps_lanes* taps_rows)
    restore_weight_kernel(To* weight, const From* from, const __grid_constant__ Taps s) {
  extern __shared__ float tile[];
  begin_kernel();
  const int first = static_cast<int>(blockIdx.x) * s.lanes_each, x = static_cast<int>(threadIdx.x),
            thread = static_cast<int>(threadIdx.y) * taps_lanes + x;
  const int group = static_cast<int>(blockIdx.y) / s.rows, channels = min(s.lanes_each, s.channels - first);
  const std::int64_t row = static_cast<std::int64_t>(group) * s.padded_rows.value() + blockIdx.y % s.rows;
  const From* const in = from + row * s.taps * s.lanes + first;
  for (int lane = x; lane < channels; lane += taps_lanes)
#pragma unroll 4
    for (int tap = static_cast<int>(threadIdx.y); tap < s.taps; tap += taps_rows)
      tile[lane * s.taps + tap] = widened(in[static_cast<std::int64_t>(tap) * s.lanes + lane]);
  __syncthreads();
  To* const out = weight + (static_cast<std::int64_t>(blockIdx.y) * s.channels + first) * s.taps;
#pragma unroll 4
  for (int i = thread; i < channels * s.taps; i += taps_lanes * taps_rows) put(out[i], tile[i]);
}

/// So many lanes in a block that enough loads are in flight.
Taps taps_of(const Problem& p, const Problem& lanes) {
  constexpr std::int64_t most_tile = 4096;
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  const std::int64_t taps = p.KH * p.KW, warps = std::clamp<std::int64_t>(most_tile / (taps * taps_lanes), 1, 4);
  return {i(p.C / p.groups),     i(lanes.C / p.groups), i(taps),
          i(warps * taps_lanes), i(p.O / p.groups),     Divide(lanes.O / p.groups)};
}
Grid taps_grid(const Taps& s, std::int64_t lanes, std::int64_t rows) {
  return Grid(dim3(static_cast<unsigned>(ceil_div(lanes, s.lanes_each)), static_cast<unsigned>(rows)),
              dim3(taps_lanes, taps_rows), sizeof(float) * static_cast<std::size_t>(s.lanes_each * s.taps));
}

/// [columns, outputs] in lanes from [outputs, columns], which are the taps of a channel one after the other, backwards.
constexpr int flip_side = 32, flip_lines = 8;
template <class To, class From>
__global__ void __launch_bounds__(flip_side* flip_lines)
    flip_weight_kernel(To* to, const From* weight, int outputs, int columns, int whole_outputs, int whole_columns,
                       Divide taps) {
  __shared__ From tile[flip_side][flip_side + 1];
  begin_kernel();
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int first_column = static_cast<int>(blockIdx.x) * flip_side, first_o = static_cast<int>(blockIdx.y) * flip_side;
#pragma unroll
  for (int i = y; i < flip_side; i += flip_lines)
    tile[i][x] = first_o + i < outputs && first_column + x < columns
                     ? weight[static_cast<std::int64_t>(first_o + i) * columns + first_column + x]
                     : From{};
  __syncthreads();
#pragma unroll
  for (int i = y; i < flip_side; i += flip_lines) {
    if (first_column + i >= whole_columns || first_o + x >= whole_outputs) continue;
    int c, tap;
    taps.split(first_column + i, c, tap);
    const int row = c * static_cast<int>(taps.value()) + static_cast<int>(taps.value()) - 1 - tap;
    convert(to[static_cast<std::int64_t>(row) * whole_outputs + first_o + x], tile[x][i]);
  }
}

/// The rows of a kernel of one element: matrices, one for each group.
products::Copied matrices_of(const Problem& p, const Problem& lanes) {
  return {p.groups, p.O / p.groups, p.C / p.groups, lanes.O / p.groups, lanes.C / p.groups};
}
bool are_matrices(const Problem& p, const Problem& lanes) { return p.KH * p.KW == 1 && matrices_of(p, lanes).fits(); }

}  // namespace

template <class To, class From>
void copy_weight(const Context& context, To* to, const From* from, const Problem& one, const Problem& other) {
  const WeightPlace place{Divide(one.KH * one.KW), Divide(one.C / one.groups), Divide(one.O / one.groups),
                          static_cast<int>(other.C / other.groups), static_cast<int>(other.O / other.groups)};
  launch(context, Grid(blocks_for(one.weights()), 256), weight_kernel<To, From>, to, from,
         static_cast<std::uint32_t>(one.weights()), place);
}

bool orders_weight(const Problem& lanes) { return lanes.KH * lanes.KW <= most_taps && lanes.O < 65536; }

template <class To, class From>
void order_weight(const Context& context, To* to, const From* weight, const Problem& p, const Problem& lanes) {
  if constexpr (std::is_same_v<To, From>)
    if (are_matrices(p, lanes)) return products::pad(context, element_of<To>, to, weight, matrices_of(p, lanes));
  const Taps sizes = taps_of(p, lanes);
  launch(context, taps_grid(sizes, sizes.lanes, lanes.O), order_weight_kernel<To, From>, to, weight, sizes);
}

template <class To, class From>
void restore_weight(const Context& context, To* weight, const From* from, const Problem& p, const Problem& lanes) {
  if (are_matrices(p, lanes))
    return products::cut(context, element_of<To>, weight, element_of<From>, from, nullptr, matrices_of(p, lanes),
                         Activation::none);
  const Taps sizes = taps_of(p, lanes);
  launch(context, taps_grid(sizes, sizes.channels, p.O), restore_weight_kernel<To, From>, weight, from, sizes);
}

template <class To, class From>
void flip_weight(const Context& context, To* to, const From* weight, const Problem& p, const Problem& lanes) {
  const std::int64_t taps = p.KH * p.KW;
  launch(context,
         Grid(dim3(static_cast<unsigned>(ceil_div(lanes.C * taps, flip_side)),
                   static_cast<unsigned>(ceil_div(lanes.O, flip_side))),
              dim3(flip_side, flip_lines)),
         flip_weight_kernel<To, From>, to, weight, static_cast<int>(p.O), static_cast<int>(p.C * taps),
         static_cast<int>(lanes.O), static_cast<int>(lanes.C * taps), Divide(taps));
}

#define TERN_INSTANTIATE(Lane, Own)                                                                \
  template void copy_weight(const Context&, Lane*, const Own*, const Problem&, const Problem&);    \
  template void order_weight(const Context&, Lane*, const Own*, const Problem&, const Problem&);   \
  template void restore_weight(const Context&, Own*, const Lane*, const Problem&, const Problem&); \
  template void flip_weight(const Context&, Lane*, const Own*, const Problem&, const Problem&);
TERN_INSTANTIATE(float, float)
TERN_INSTANTIATE(BFloat16, BFloat16)
TERN_INSTANTIATE(Float16, Float16)
TERN_INSTANTIATE(float, BFloat16)
TERN_INSTANTIATE(float, Float16)
#undef TERN_INSTANTIATE
template void copy_weight(const Context&, BFloat16*, const float*, const Problem&, const Problem&);
template void copy_weight(const Context&, Float16*, const float*, const Problem&, const Problem&);

}  // namespace tern::cuda::convolution
