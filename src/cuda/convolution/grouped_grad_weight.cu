// The weight's gradient of a convolution with many groups: a thread has V outputs by V inputs of a group and one row of
// taps (or one tap) over a slice of the positions. sum_slices adds the slices.

#include <algorithm>
#include <type_traits>

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/grouped.cuh"
#include "cuda/fused_rows.cuh"

namespace tern::cuda::convolution {
namespace grouped {
namespace {

constexpr int threads = 128, lanes = 32, R = 4;
constexpr std::int64_t wanted_blocks = 1024;

/// Pairs of V outputs and V inputs of the groups; the inputs vary fastest.
struct Pairs {
  int C, O;  ///< of a group
  int count;
  Divisor<std::uint32_t> inputs, outputs;  ///< packs of a group
};

/// K taps of a row at stride S per thread; K == 1: one tap, with any stride and dilation.
template <int K, int S, int V, class E>
__global__ void __launch_bounds__(threads)
    pairs_kernel(float* partials, const E* gradients, const E* x, std::int64_t items, const __grid_constant__ Work work,
                 const __grid_constant__ Pairs pairs) {
  __shared__ float shared[K * V * V][threads];
  begin_kernel();
  const Side &strip = work.strip, &rows = work.across;
  const int pair = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  auto group = static_cast<std::uint32_t>(pair);
  const int c = static_cast<int>(pairs.inputs.split(group)) * V, o = static_cast<int>(pairs.outputs.split(group)) * V;
  const int output = static_cast<int>(group) * pairs.O + o, input = static_cast<int>(group) * pairs.C + c;
  const int taps = strip.taps, first_tap = static_cast<int>(blockIdx.z) * K;
  const int kh = first_tap / taps, kw = first_tap - kh * taps;
  float sum[K][V][V] = {};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
       pair < pairs.count && item < items; item += step) {
    auto image = static_cast<std::uint32_t>(item);
    const int number = static_cast<int>(work.strips.split(image)), at = static_cast<int>(work.parts.split(image));
    const int begin = number * R, outputs = strip.written - begin,
              row = at * rows.stride - rows.pad + kh * rows.dilation;
    const bool exists = static_cast<unsigned>(row) < static_cast<unsigned>(rows.read);
    Pack<float, V> gradient[R], window[Window<false, K, S, R>::length];
    load_outputs(gradient,
                 gradients + image * work.write_image + at * rows.write_pitch + begin * strip.write_pitch + output,
                 outputs, strip.write_pitch);
    const E* const from = x + image * work.read_image + row * rows.read_pitch + input;
    if constexpr (K == 1) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int column = (begin + r) * strip.stride - strip.pad + kw * strip.dilation;
        const bool inside = exists & (static_cast<unsigned>(column) < static_cast<unsigned>(strip.read));
        window[r] = inside ? load<V>(from + column * strip.read_pitch) : Pack<float, V>{};
      }
    } else {
      const int first = begin * S - strip.pad;
      load_window<V>(window, from + first * strip.read_pitch, exists, first, strip);
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (r >= outputs) continue;
#pragma unroll
      for (int k = 0; k < K; ++k)
#pragma unroll
        for (int i = 0; i < V; ++i)
#pragma unroll
          for (int j = 0; j < V; ++j)
            sum[k][i][j] = fmaf(gradient[r].value[i], window[K == 1 ? r : r * S + k].value[j], sum[k][i][j]);
    }
  }
  const int own = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
  for (int k = 0; k < K; ++k)
#pragma unroll
    for (int i = 0; i < V; ++i)
#pragma unroll
      for (int j = 0; j < V; ++j) shared[(i * V + j) * K + k][own] = sum[k][i][j];
  __syncthreads();
  if (pair >= pairs.count) return;
  // The threads of a pair share its sums.
  const int all_taps = taps * rows.taps;
  float* const to = partials + static_cast<std::int64_t>(blockIdx.x) *
                                   (static_cast<std::int64_t>(work.channels) * pairs.C) * all_taps;
  for (int e = static_cast<int>(threadIdx.y); e < K * V * V; e += static_cast<int>(blockDim.y)) {
    float total = 0;
    for (unsigned y = 0; y < blockDim.y; ++y) total += shared[e][y * blockDim.x + threadIdx.x];
    const int k = e % K, j = e / K % V, i = e / K / V;
    to[(static_cast<std::int64_t>(output + i) * pairs.C + c + j) * all_taps + first_tap + k] = total;
  }
}

/// From the sizes only: every card adds in the same order.
struct Cut {
  Work work;
  Pairs pairs;
  Lanes lay;
  int at_once, taps_each;  ///< channels and taps of a thread
  std::int64_t items, slices, layers;
};

Cut cut_of(const Problem& p) {
  Problem forward = p;
  forward.pass = Pass::forward;
  forward.y_channels = p.O;
  const Groups groups = groups_of(forward);
  const int V = groups.at_once;
  const bool rows = V == 4 && p.KH == 3 && p.KW == 3 && p.stride_h == p.stride_w && p.stride_h <= 2 &&
                    p.dilation_h == 1 && p.dilation_w == 1;
  const std::int64_t count = p.groups * (groups.read / V) * (groups.written / V);
  Cut cut{work_of(forward),
          {groups.read, groups.written, static_cast<int>(count), Divisor<std::uint32_t>(groups.read / V),
           Divisor<std::uint32_t>(groups.written / V)},
          Lanes(count, threads, lanes),
          V,
          rows ? 3 : 1,
          0,
          1,
          p.KH * p.KW / (rows ? 3 : 1)};
  const std::int64_t strips = ceil_div(cut.work.strip.written, R);
  cut.work.strips = Divisor<std::uint32_t>(strips);
  cut.work.parts = Divisor<std::uint32_t>(cut.work.across.written);
  cut.items = cut.work.images * strips * cut.work.across.written;
  cut.slices = std::clamp<std::int64_t>(
      std::min(ceil_div(wanted_blocks, cut.lay.tiles * cut.layers), ceil_div(cut.items, 4 * cut.lay.rows)), 1, 65535);
  return cut;
}

std::size_t workspace(const Problem& p, int) {
  return static_cast<std::size_t>(cut_of(p).slices * p.weights()) * sizeof(float);
}

template <class E>
void run_as(const Context& context, const Problem& p, const Arrays& arrays, void* workspace) {
  const Cut cut = cut_of(p);
  auto* const partials = static_cast<float*>(workspace);
  const auto kernel = cut.taps_each == 3 ? p.stride_h == 1 ? pairs_kernel<3, 1, 4, E> : pairs_kernel<3, 2, 4, E>
                      : cut.at_once == 4 ? pairs_kernel<1, 1, 4, E>
                                         : pairs_kernel<1, 1, 1, E>;
  launch(context,
         Grid(dim3(static_cast<unsigned>(cut.slices), static_cast<unsigned>(cut.lay.tiles),
                   static_cast<unsigned>(cut.layers)),
              dim3(static_cast<unsigned>(cut.lay.lanes), static_cast<unsigned>(cut.lay.rows))),
         kernel, partials, static_cast<const E*>(arrays.y), static_cast<const E*>(arrays.x), cut.items, cut.work,
         cut.pairs);
  sum_slices<E>(context, static_cast<E*>(arrays.weight), nullptr, partials, cut.slices, p.weights(), 0);
}

void run(Context& context, const Problem& p, const Arrays& arrays, int, void* workspace) {
  with_stored(p, [&](auto* none) { run_as<std::remove_pointer_t<decltype(none)>>(context, p, arrays, workspace); });
}

}  // namespace
}  // namespace grouped

const Algorithm grouped_grad_weight_first{"grouped", grouped::fits_narrow, grouped::workspace, grouped::run};
const Algorithm grouped_grad_weight_last{"grouped", grouped::fits, grouped::workspace, grouped::run};

}  // namespace tern::cuda::convolution
