// The gradient of a depthwise weight: sums over slices of the positions, in a fixed tree. The threads of a block walk
// strips of its slice and add their sums in order; sum_slices adds the slices.

#include <vector>

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/depthwise.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/reduce.cuh"

namespace tern::cuda::convolution {
namespace depthwise {
namespace {

constexpr int threads = 128, lanes = 32;
constexpr std::int64_t wanted_blocks = 1024;

/// Channels per thread, so that its sums fit registers.
template <int K>
constexpr int width = K == 3   ? 4
                      : K == 5 ? 2
                               : 1;

/// sum[tap] += gradient * x for a strip of outputs and one row of taps. Outputs that do not exist are skipped.
template <int K, int S, int R, class T, int V, class E>
__device__ __forceinline__ void add_row(Pack<T, V>* sum, const Pack<T, V> (&gradient)[R], int outputs, const E* row,
                                        bool exists, int first, const Side& strip, int tap_pitch) {
  using Strip = Window<false, K, S, R>;
  Pack<T, V> window[Strip::length];
  load_window<V>(window, row, exists, first, strip);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (r >= outputs) continue;
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        T& to = sum[k * tap_pitch].value[v];
        to = fma(gradient[r].value[v], window[Strip::place(r, k)].value[v], to);
      }
  }
}

/// Channels last: blocks of packs of channels by slices.
template <int K, int S, int R, int V, class E>
__global__ void __launch_bounds__(threads) lasting_kernel(float* partials, const E* gradients, const E* x,
                                                          std::int64_t items, const __grid_constant__ Work work) {
  __shared__ Pack<float, V> shared[K * K][threads];
  begin_kernel();
  const int block_channel = static_cast<int>(blockIdx.y * blockDim.x) * V;
  const int channel = block_channel + static_cast<int>(threadIdx.x) * V;
  Pack<float, V> sum[K * K] = {};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
       channel < work.channels && item < items; item += step) {
    auto image = static_cast<std::uint32_t>(item);
    const int strip = static_cast<int>(work.strips.split(image)), part = static_cast<int>(work.parts.split(image));
    const int begin = strip * R, outputs = work.strip.written - begin, first = begin * S - work.strip.pad;
    const E* const read = x + image * work.read_image + first * work.strip.read_pitch + channel;
    const E* const g = gradients + image * work.write_image + begin * work.strip.write_pitch + channel;
    const int end = min((part + 1) * work.rows_each, work.across.written);
    for (int at = part * work.rows_each; at < end; ++at) {
      Pack<float, V> gradient[R];
      load_outputs(gradient, g + at * work.across.write_pitch, outputs, work.strip.write_pitch);
#pragma unroll
      for (int tap = 0; tap < K; ++tap) {
        const int row = at * S - work.across.pad + tap;
        const bool exists = static_cast<unsigned>(row) < static_cast<unsigned>(work.across.read);
        add_row<K, S>(sum + tap * K, gradient, outputs, read + row * work.across.read_pitch, exists, first, work.strip,
                      1);
      }
    }
  }
  const int own = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
  for (int tap = 0; tap < K * K; ++tap) shared[tap][own] = sum[tap];
  __syncthreads();
  const int count = min(static_cast<int>(blockDim.x) * V, work.channels - block_channel) * (K * K);
  float* const to = partials + (static_cast<std::int64_t>(blockIdx.x) * work.channels + block_channel) * (K * K);
  for (int i = own; i < count; i += static_cast<int>(blockDim.x * blockDim.y)) {
    const int c = i / (K * K), tap = i - c * (K * K);
    float total = 0;
    for (unsigned y = 0; y < blockDim.y; ++y)
      total += shared[tap][y * blockDim.x + static_cast<unsigned>(c / V)].value[c % V];
    to[i] = total;
  }
}

/// Adds a thread's sums over the block, one after the other, and writes those of the weight and the bias.
template <class T, int count>
__device__ __forceinline__ void write_sums(T* weight_to, T* bias_to, const T (&sum)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const T total = reduce_block(sum[i], Plus{});
    if (threadIdx.x == 0) (i + 1 < count ? weight_to[i] : *bias_to) = total;
  }
}

/// Channels first: blocks of a channel by slices. The sums of the weight precede those of the bias.
template <int K, int S, int R, class E>
__global__ void __launch_bounds__(threads) planar_kernel(float* partials, const E* gradients, const E* x,
                                                         std::int64_t items, const __grid_constant__ Work work) {
  begin_kernel();
  const int channel = static_cast<int>(blockIdx.x), slice = static_cast<int>(blockIdx.y);
  float sums[K * K + 1] = {};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  for (std::int64_t item = static_cast<std::int64_t>(slice) * blockDim.x + threadIdx.x; item < items; item += step) {
    auto image = static_cast<std::uint32_t>(item);
    const int at = static_cast<int>(work.parts.split(image)), strip = static_cast<int>(work.strips.split(image));
    const std::int64_t plane = static_cast<std::int64_t>(image) * work.channels + channel;
    const int begin = strip * R, outputs = work.strip.written - begin, first = begin * S - work.strip.pad;
    Pack<float, 1> gradient[R], sum[K * K];
    load_outputs(gradient,
                 gradients + plane * work.write_image + begin * work.strip.write_pitch + at * work.across.write_pitch,
                 outputs, work.strip.write_pitch);
#pragma unroll
    for (int i = 0; i < K * K; ++i) sum[i].value[0] = sums[i];
    const E* const read = x + plane * work.read_image + first * work.strip.read_pitch;
#pragma unroll
    for (int tap = 0; tap < K; ++tap) {
      const int column = at * S - work.across.pad + tap;
      const bool exists = static_cast<unsigned>(column) < static_cast<unsigned>(work.across.read);
      add_row<K, S>(sum + tap, gradient, outputs, read + column * work.across.read_pitch, exists, first, work.strip, K);
    }
#pragma unroll
    for (int i = 0; i < K * K; ++i) sums[i] = sum[i].value[0];
#pragma unroll
    for (int r = 0; r < R; ++r) sums[K * K] += gradient[r].value[0];
  }
  float* const to = partials + slice * static_cast<std::int64_t>(work.channels) * (K * K + 1);
  write_sums(to + static_cast<std::int64_t>(channel) * (K * K),
             to + static_cast<std::int64_t>(work.channels) * (K * K) + channel, sums);
}

/// Any kernel, stride and dilation: one block per tap of a channel and slice.
template <class E, class T = Scalar<E>>
__global__ void __launch_bounds__(threads) any_kernel(T* partials, const E* gradients, const E* x, std::int64_t items,
                                                      const __grid_constant__ Work work, bool last) {
  begin_kernel();
  const int channel = static_cast<int>(blockIdx.x), slice = static_cast<int>(blockIdx.y);
  const int tap = static_cast<int>(blockIdx.z), taps = static_cast<int>(gridDim.z);
  const Side &rows = last ? work.across : work.strip, &columns = last ? work.strip : work.across;
  const int kh = tap / columns.taps, kw = tap - kh * columns.taps;
  T sums[2] = {};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  for (std::int64_t item = static_cast<std::int64_t>(slice) * blockDim.x + threadIdx.x; item < items; item += step) {
    auto image = static_cast<std::uint32_t>(item);
    const int ow = static_cast<int>(work.strips.split(image)), oh = static_cast<int>(work.parts.split(image));
    const std::int64_t plane = last ? image : static_cast<std::int64_t>(image) * work.channels + channel;
    const int h = oh * rows.stride - rows.pad + kh * rows.dilation,
              w = ow * columns.stride - columns.pad + kw * columns.dilation;
    const bool exists = h >= 0 && h < rows.read && w >= 0 && w < columns.read;
    const int beside = last ? channel : 0;
    const T gradient =
        widened(gradients[plane * work.write_image + oh * rows.write_pitch + ow * columns.write_pitch + beside]);
    const T value =
        exists ? widened(x[plane * work.read_image + h * rows.read_pitch + w * columns.read_pitch + beside]) : T(0);
    sums[0] = fma(gradient, value, sums[0]);
    sums[1] += gradient;
  }
  T* const to = partials + slice * static_cast<std::int64_t>(work.channels) * (taps + 1);
  T unused;
  write_sums(to + static_cast<std::int64_t>(channel) * taps + tap,
             tap == 0 ? to + static_cast<std::int64_t>(work.channels) * taps + channel : &unused, sums);
}

/// How a pass is cut into slices, from its sizes only: every card adds in the same order.
struct Cut {
  bool strips;  ///< specialised kernels for the usual sizes, else the general one
  Work work;    ///< reads x, and writes at positions of y's gradient
  std::int64_t items;
  std::int64_t slices;
  Lanes lay;
};

/// The pass as one that writes y.
Problem as_forward(const Problem& p) {
  Problem forward = p;
  forward.pass = Pass::forward;
  forward.y_channels = p.O;
  return forward;
}

/// Of the whole pass, or of a phase whose work this is.
Cut cut_of(const Problem& p, const Work& of) {
  const Problem forward = as_forward(p);
  const bool last = p.channels_last();
  const int V = p.KH == 3 ? width<3> : p.KH == 5 ? width<5> : width<7>, R = p.KH == 3 ? 4 : 8;
  Cut cut{is_usual(p) && p.element == Element::float32 && (!last || in_fours(forward)), of, 0, 1,
          Lanes(ceil_div(p.C, V), threads, lanes)};
  Work& work = cut.work;
  if (!last || !cut.strips) work.images = static_cast<int>(p.N);
  if (!cut.strips) {
    work.strips = Divisor<std::uint32_t>(p.OW);
    work.parts = Divisor<std::uint32_t>(p.OH);
    cut.items = p.positions();
  } else {
    const std::int64_t strips = ceil_div(work.strip.written, R);
    const auto items = [&] { return work.images * strips * ceil_div(work.across.written, work.rows_each); };
    work.rows_each = last ? 8 : 1;
    while (work.rows_each > 1 && ceil_div(items(), cut.lay.rows) * cut.lay.tiles < wanted_blocks) work.rows_each /= 2;
    work.strips = Divisor<std::uint32_t>(strips);
    work.parts = Divisor<std::uint32_t>(ceil_div(work.across.written, work.rows_each));
    cut.items = items();
  }
  const bool lasting = last && cut.strips;
  const std::int64_t per_block = lasting ? cut.lay.rows : threads, side_by_side = lasting ? cut.lay.tiles : p.C;
  const std::int64_t most = ceil_div(cut.items, lasting ? per_block : 2 * per_block);
  cut.slices = std::clamp<std::int64_t>(std::min(ceil_div(wanted_blocks, side_by_side), most), 1, 65535);
  return cut;
}

/// The launches of a pass, and where each reads x and the gradients of y.
struct Launch {
  Cut cut;
  std::int64_t x = 0, y = 0;
};
std::vector<Launch> launches_of(const Problem& p) {
  const Problem forward = as_forward(p);
  if (!has_phases(p) || p.element != Element::float32 || (p.channels_last() && !in_fours(forward)))
    return {{cut_of(p, work_of(forward))}};
  std::vector<Launch> all;
  for_phases(forward, [&](const Phase& phase) {
    all.push_back({cut_of(of_phase(p), phase.work), phase.read, phase.write});
  });
  return all;
}
std::int64_t slices_of(const std::vector<Launch>& all) {
  std::int64_t slices = 0;
  for (const Launch& each : all) slices += each.cut.slices;
  return slices;
}
/// The sums of a slice.
std::int64_t sums_of(const Problem& p, const Cut& cut) {
  return p.weights() + (p.channels_last() && cut.strips ? 0 : p.O);
}

std::size_t workspace(const Problem& p, int) {
  const std::vector<Launch> all = launches_of(p);
  return static_cast<std::size_t>(slices_of(all) * sums_of(p, all[0].cut) * bytes_of(p.element));
}

template <class E>
void run_any(const Context& context, const Problem& p, const Arrays& arrays, const Cut& cut, Scalar<E>* partials) {
  const bool last = p.channels_last();
  launch(context,
         Grid(dim3(static_cast<unsigned>(p.C), static_cast<unsigned>(cut.slices), static_cast<unsigned>(p.KH * p.KW)),
              threads),
         any_kernel<E>, partials, static_cast<const E*>(arrays.y), static_cast<const E*>(arrays.x), cut.items, cut.work,
         last);
}

template <class E>
void run_strips(const Context& context, const Problem& p, const Arrays& arrays, const Launch& of, float* partials) {
  const Cut& cut = of.cut;
  const auto* const gradients = static_cast<const E*>(arrays.y) + of.y;
  const auto* const x = static_cast<const E*>(arrays.x) + of.x;
  with_kernel(has_phases(p) ? of_phase(p) : p, [&](auto size, auto stride) {
    constexpr int K = size.value, S = stride.value, R = K == 3 ? 4 : 8, V = width<K>;
    if (!p.channels_last())
      return launch(context, Grid(dim3(static_cast<unsigned>(p.C), static_cast<unsigned>(cut.slices)), threads),
                    planar_kernel<K, S, R, E>, partials, gradients, x, cut.items, cut.work);
    launch(context,
           Grid(dim3(static_cast<unsigned>(cut.slices), static_cast<unsigned>(cut.lay.tiles)),
                dim3(static_cast<unsigned>(cut.lay.lanes), static_cast<unsigned>(cut.lay.rows))),
           lasting_kernel<K, S, R, V, E>, partials, gradients, x, cut.items, cut.work);
  });
}

template <class E>
void run_as(const Context& context, const Problem& p, const Arrays& arrays, void* workspace) {
  using T = Scalar<E>;
  const std::vector<Launch> all = launches_of(p);
  auto* partials = static_cast<T*>(workspace);
  for (const Launch& each : all) {
    if constexpr (std::is_same_v<T, float>) {
      if (each.cut.strips) run_strips<E>(context, p, arrays, each, partials);
    }
    if (!each.cut.strips) run_any<E>(context, p, arrays, each.cut, partials);
    partials += each.cut.slices * sums_of(p, each.cut);
  }
  const bool sums_bias = !(p.channels_last() && all[0].cut.strips);
  sum_slices<E>(context, static_cast<E*>(arrays.weight), static_cast<E*>(arrays.bias), static_cast<T*>(workspace),
                slices_of(all), p.weights(), sums_bias ? p.O : 0);
}

void run(Context& context, const Problem& p, const Arrays& arrays, int, void* workspace) {
  if (p.element == Element::float64) return run_as<double>(context, p, arrays, workspace);
  with_stored(p, [&](auto* none) { run_as<std::remove_pointer_t<decltype(none)>>(context, p, arrays, workspace); });
}

}  // namespace
}  // namespace depthwise

const Algorithm depthwise_grad_weight{"depthwise", depthwise::fits, depthwise::workspace, depthwise::run};

}  // namespace tern::cuda::convolution
