#include <algorithm>
#include <type_traits>

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/grouped.cuh"

namespace tern::cuda::convolution {
namespace grouped {

namespace {

constexpr int threads = 256, lanes = 32, R = 4;
constexpr std::size_t most_shared = 48 * 1024;

std::size_t shared_bytes(const Problem& p, const Groups& groups, int in_block) {
  return sizeof(float) * static_cast<std::size_t>(p.KH * p.KW * groups.read * groups.at_once * in_block);
}

}  // namespace

Groups groups_of(const Problem& p) {
  const bool back = p.pass == Pass::grad_x;
  const auto C = static_cast<int>(p.C / p.groups), O = static_cast<int>(p.O / p.groups);
  Problem dense = p;
  if (p.pass != Pass::forward) dense.y_channels = p.O;  // gradients of y are
  const int at_once = C % 4 == 0 && O % 4 == 0 && in_fours(dense) ? 4 : 1;
  return {back ? O : C, back ? C : O, at_once};
}

bool fits(const Problem& p) {
  constexpr std::int64_t most_blocks = 65535;  // along the second and third dimension of a grid
  if (!p.channels_last() || p.groups < 2 || p.element != Element::float32 || p.weights() == 0 || p.C % 4 != 0 ||
      p.O % 4 != 0 || std::max({p.C, p.O, p.KH * p.KW, p.O * (p.C / p.groups) / lanes}) >= most_blocks)
    return false;
  const auto fits_shared = [&](Pass pass) {
    Problem problem = p;
    problem.pass = pass;
    Groups groups = groups_of(problem);
    groups.at_once = 4;
    return shared_bytes(problem, groups, 1) <= most_shared;
  };
  return fits_shared(Pass::forward) && fits_shared(Pass::grad_x) && is_countable(p);
}

bool is_narrow(const Conv2d& shape) { return std::min(shape.C, shape.O) / shape.groups < 32; }

namespace {

/// The weights of a block's written channels, [taps][read channels of the group][width].
template <class E>
__device__ __forceinline__ void stage_weights(float* shared, const E* weight, int first, int width, int channels,
                                              int taps, const Groups& groups, bool back) {
  const int count = min(width, channels - first) * groups.read * taps;
  for (int i = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); i < count;
       i += static_cast<int>(blockDim.x * blockDim.y)) {
    int rest = i / taps;
    const int tap = i - rest * taps;
    int written, read;
    std::int64_t from;
    if (back) {  // the weight's order follows what is read
      written = rest % min(width, channels - first);
      read = rest / min(width, channels - first);
      const int channel = first + written, group = channel / groups.written;
      from = (static_cast<std::int64_t>(group * groups.read + read) * groups.written + channel % groups.written) * taps;
    } else {
      written = rest / groups.read;
      read = rest % groups.read;
      from = (static_cast<std::int64_t>(first + written) * groups.read + read) * taps;
    }
    shared[(tap * groups.read + read) * width + written] = widened(weight[from + tap]);
  }
  __syncthreads();
}

/// sum[r] += the values of a position times the weights for V outputs.
template <int V>
__device__ __forceinline__ void add(Pack<float, V>& sum, const Pack<float, V>& values,
                                    const Pack<float, V> (&weight)[V]) {
#pragma unroll
  for (int i = 0; i < V; ++i)
#pragma unroll
    for (int v = 0; v < V; ++v) sum.value[v] = fmaf(values.value[i], weight[i].value[v], sum.value[v]);
}

/// V read channels by one row of K taps at stride S; K == 0: any number, stride and dilation.
template <bool back, int K, int S, int V, class E>
__device__ __forceinline__ void add_row(Pack<float, V> (&sum)[R], const E* row, bool exists, int first,
                                        const Side& strip, const float* weight, int tap_step, int width) {
  Pack<float, V> factors[V];
  const auto load_factors = [&](int tap) {
#pragma unroll
    for (int i = 0; i < V; ++i) factors[i] = load<V>(weight + tap * tap_step + i * width);
  };
  if constexpr (K != 0) {
    using Strip = Window<back, K, S, R>;
    Pack<float, V> window[Strip::length];
    load_window<V>(window, row + first * strip.read_pitch, exists, first, strip);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      load_factors(k);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int j = Strip::place(r, k);
        if (j < 0) continue;
        if (back && static_cast<unsigned>(first + j) >= static_cast<unsigned>(strip.read)) continue;
        add(sum[r], window[j], factors);
      }
    }
  } else {
    for (int k = 0; k < strip.taps; ++k) {
      load_factors(k);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        int at = (first + r) * strip.stride - strip.pad + k * strip.dilation;
        bool reads = true;
        if (back) {
          const int padded = first + r + strip.pad - k * strip.dilation;
          at = padded / strip.stride;
          reads = padded >= 0 && at * strip.stride == padded;
        }
        const bool inside = reads & (static_cast<unsigned>(at) < static_cast<unsigned>(strip.read));
        if (back && !inside) continue;
        const auto values = exists && inside ? load<V>(row + at * strip.read_pitch) : Pack<float, V>{};
        add(sum[r], values, factors);
      }
    }
  }
}

template <bool back, int K, int S, int V, class E>
__global__ void __launch_bounds__(threads, 2)
    strips_kernel(E* to, const E* from, const E* weight, const E* bias, const __grid_constant__ Work work,
                  Groups groups, Activation activation) {
  extern __shared__ float4 shared_vectors[];
  float* const shared = reinterpret_cast<float*>(shared_vectors);
  begin_kernel();
  const Side &strip = work.strip, &rows = work.across;
  const int width = static_cast<int>(blockDim.x) * V, block_channel = static_cast<int>(blockIdx.y) * width;
  stage_weights(shared, weight, block_channel, width, work.channels, strip.taps * rows.taps, groups, back);
  const int lane = static_cast<int>(threadIdx.x) * V, channel = block_channel + lane;
  auto image = static_cast<std::uint32_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int number = static_cast<int>(work.strips.split(image)), at = static_cast<int>(work.parts.split(image));
  if (channel >= work.channels || image >= static_cast<unsigned>(work.images)) return;
  using Strip = Window<back, K == 0 ? 1 : K, S, R>;
  // For any number of taps `first` is the position written, otherwise the one read.
  const int written = K == 0 ? number * R : Strip::first_written(number, strip.pad);
  const int first = K == 0 ? written : Strip::first_read(number, strip.pad);
  const E* const read = from + image * work.read_image + channel / groups.written * groups.read;
  const int tap_step = groups.read * width;
  Pack<float, V> sum[R] = {};
  for (int tap = 0; tap < rows.taps; ++tap) {
    int row = at * rows.stride - rows.pad + tap * rows.dilation;
    bool exists = true;
    if (back) {
      const int padded = at + rows.pad - tap * rows.dilation;
      row = padded / rows.stride;
      exists = padded >= 0 && row * rows.stride == padded;
    }
    exists = exists && static_cast<unsigned>(row) < static_cast<unsigned>(rows.read);
    if (back && !exists) continue;
    const float* const row_weight = shared + tap * strip.taps * tap_step + lane;
#pragma unroll 1
    for (int c = 0; c < groups.read; c += V)
      add_row<back, K, S>(sum, read + row * rows.read_pitch + c, exists, first, strip, row_weight + c * width, tap_step,
                          width);
  }
  finish(to + image * work.write_image + at * rows.write_pitch + written * strip.write_pitch + channel, sum,
         bias == nullptr ? bias : bias + channel, written, strip, activation);
}

template <bool back, int K, int S, int V, class E>
void run_strips(const Context& context, const Problem& p, const Arrays& arrays, const Groups& groups) {
  Work work = work_of(p);
  const std::int64_t strips = K == 0 ? ceil_div(work.strip.written, R) : Window < back, K == 0 ? 1 : K, S,
                     R > ::strips(work.strip.written, work.strip.pad);
  work.strips = Divisor<std::uint32_t>(strips);
  work.parts = Divisor<std::uint32_t>(work.across.written);
  int in_block = lanes;
  while (in_block > 1 && shared_bytes(p, groups, in_block) > most_shared) in_block /= 2;
  const Lanes lay(work.channels / V, threads, in_block);
  const std::int64_t items = work.images * strips * work.across.written;
  const Operands<E> on(p, arrays);
  launch(
      context,
      Grid(dim3(static_cast<unsigned>(ceil_div(items, lay.rows)), static_cast<unsigned>(lay.tiles)),
           dim3(static_cast<unsigned>(lay.lanes), static_cast<unsigned>(lay.rows)), shared_bytes(p, groups, lay.lanes)),
      strips_kernel<back, K, S, V, E>, on.to, on.from, on.weight, on.bias, work, groups, on.activation);
}

template <bool back, class E>
void run_pass(const Context& context, const Problem& p, const Arrays& arrays) {
  const Groups groups = groups_of(p);
  const bool square = p.KH == 3 && p.KW == 3 && p.dilation_h == 1 && p.dilation_w == 1 && p.stride_h == p.stride_w;
  if (groups.at_once == 1) return run_strips<back, 0, 1, 1, E>(context, p, arrays, groups);
  if (square && p.stride_h == 1) return run_strips<back, 3, 1, 4, E>(context, p, arrays, groups);
  if (square && p.stride_h == 2) return run_strips<back, 3, 2, 4, E>(context, p, arrays, groups);
  run_strips<back, 0, 1, 4, E>(context, p, arrays, groups);
}

void run(Context& context, const Problem& p, const Arrays& arrays, int, void*) {
  with_stored(p, [&](auto* none) {
    using E = std::remove_pointer_t<decltype(none)>;
    if (p.pass == Pass::grad_x) return run_pass<true, E>(context, p, arrays);
    run_pass<false, E>(context, p, arrays);
  });
}

}  // namespace
}  // namespace grouped

const Algorithm grouped_forward_first{"grouped", grouped::fits_narrow, nullptr, grouped::run};
const Algorithm grouped_forward_last{"grouped", grouped::fits, nullptr, grouped::run};
const Algorithm grouped_grad_x_first{"grouped", grouped::fits_narrow, nullptr, grouped::run};
const Algorithm grouped_grad_x_last{"grouped", grouped::fits, nullptr, grouped::run};

}  // namespace tern::cuda::convolution
