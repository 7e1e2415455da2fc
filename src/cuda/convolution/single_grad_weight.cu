// The gradient of the weight of convolutions with one input channel or one output, and of groups of few channels: a
// block sums a slice of the positions for an output and an input, in a fixed tree; sum_slices adds the slices.

#include <algorithm>

#include "cuda/convolution/single.cuh"
#include "cuda/fused_rows.cuh"

namespace tern::cuda::convolution {
namespace single {
namespace {

constexpr int threads = 128;

/// Positions of a strip.
template <int K>
constexpr int sum_rows = K == 7 ? 8 : 4;

template <class E>
struct Sums {
  float *weight, *bias;  ///< null: not wanted
  const E *g, *x;
  std::int64_t slice;  ///< elements from one slice's sums to the next
  int g_planes, x_planes;
  int outputs, inputs;  ///< of a group
  std::uint32_t items;
};

/// Adds the sums of all threads, a warp one after the other; use(number, total) by one thread.
template <int count, class Use>
__device__ __forceinline__ void add_threads(const float (&sums)[count], const Use& use) {
  __shared__ float all[count][threads];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
#pragma unroll
  for (int i = 0; i < count; ++i) all[i][thread] = sums[i];
  __syncthreads();
  for (int i = thread / 32; i < count; i += threads / 32) {
    float total = 0;
#pragma unroll
    for (int from = 0; from < threads; from += 32) total += all[i][from + lane];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) total += __shfl_down_sync(0xffffffffu, total, distance);
    if (lane == 0) use(i, total);
  }
}

/// Blocks of pairs by slices.
template <int K, int S, class E>
__global__ void __launch_bounds__(threads, K == 7 ? 3 : 6)
    grad_weight_kernel(const __grid_constant__ Sums<E> on, const __grid_constant__ Walk walk) {
  constexpr int rows = sum_rows<K>;
  const int pair = static_cast<int>(blockIdx.x), output = pair / on.inputs, c = pair % on.inputs;
  const int input = output / on.outputs * on.inputs + c;
  begin_kernel();
  float sums[K * K + 1] = {};
  for (std::uint32_t item = blockIdx.y * threads + threadIdx.x; item < on.items; item += gridDim.y * threads) {
    const Strip<rows> strip(item, walk);
    const auto plane_of = [&](int planes, int plane) {
      return static_cast<std::int64_t>(strip.image) * planes + plane;
    };
    const E* const g = on.g + (plane_of(on.g_planes, output) * walk.at_h + strip.row) * walk.at_w + strip.column;
    const E* const x = on.x + plane_of(on.x_planes, input) * walk.read_h * walk.read_w;
    float gradient[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r)
      gradient[r] = strip.row + r * walk.step < walk.at_h ? widened(g[r * walk.step * walk.at_w]) : 0.0f;
#pragma unroll
    for (int kw = 0; kw < K; ++kw) {
      Window<K, S, false, rows> window;
      window.load(x, strip, kw, walk);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        if (strip.row + r * walk.step >= walk.at_h) continue;
#pragma unroll
        for (int kh = 0; kh < K; ++kh)
          sums[kh * K + kw] = fmaf(gradient[r], window.value[r * S + kh], sums[kh * K + kw]);
      }
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) sums[K * K] += gradient[r];
  }
  add_threads(sums, [&](int i, float total) {
    if (i < K * K) {
      if (on.weight != nullptr) on.weight[blockIdx.y * on.slice + pair * (K * K) + i] = total;
    } else if (on.bias != nullptr && c == 0) {
      on.bias[blockIdx.y * on.slice + output] = total;
    }
  });
}

int rows_of_problem(const Problem& p) {
  int rows = 0;
  with_window(p, false, [&](auto size, auto, auto) { rows = sum_rows<size.value>; });
  return rows;
}

std::int64_t pairs_of(const Problem& p) { return p.O * (p.C / p.groups); }

std::int64_t slices_of(const Problem& p) {
  constexpr std::int64_t wanted = 8;  // blocks for each multiprocessor
  const Walk walk = walk_of(p, false);
  const std::int64_t most = ceil_div(walk.items(rows_of_problem(p)), 2 * threads);
  return std::clamp<std::int64_t>(std::min(ceil_div(wanted * card().multiprocessors, pairs_of(p)), most), 1, 65535);
}

}  // namespace

std::size_t grad_weight_workspace(const Problem& p, int) {
  const std::int64_t slices = slices_of(p);
  return slices == 1 && p.stored == Element::float32
             ? 0
             : static_cast<std::size_t>(slices * (p.weights() + p.O)) * sizeof(float);
}

namespace {

template <class E>
void run_as(const Context& context, const Problem& p, const Arrays& arrays, void* workspace) {
  Walk walk = walk_of(p, false);
  const std::int64_t slices = slices_of(p);
  auto* const partials = static_cast<float*>(workspace);
  const bool adds = slices > 1 || is_half<E>;
  const Sums<E> on{.weight = adds ? partials : static_cast<float*>(arrays.weight),
                   .bias = adds ? partials + p.weights() : static_cast<float*>(arrays.bias),
                   .g = static_cast<const E*>(arrays.y),
                   .x = static_cast<const E*>(arrays.x),
                   .slice = p.weights() + p.O,
                   .g_planes = static_cast<int>(p.O),
                   .x_planes = static_cast<int>(p.C),
                   .outputs = static_cast<int>(p.O / p.groups),
                   .inputs = static_cast<int>(p.C / p.groups),
                   .items = static_cast<std::uint32_t>(walk.items(rows_of_problem(p)))};
  with_window(p, false, [&](auto size, auto stride, auto) {
    walk.cut(sum_rows<size.value>);
    launch(context, Grid(dim3(static_cast<unsigned>(pairs_of(p)), static_cast<unsigned>(slices)), threads),
           grad_weight_kernel<size.value, stride.value, E>, on, walk);
  });
  if (adds)
    sum_slices<E>(context, static_cast<E*>(arrays.weight), static_cast<E*>(arrays.bias), partials, slices, p.weights(),
                  p.O);
}

}  // namespace

void run_grad_weight(Context& context, const Problem& p, const Arrays& arrays, int, void* workspace) {
  with_stored(p, [&](auto* none) { run_as<std::remove_pointer_t<decltype(none)>>(context, p, arrays, workspace); });
}

}  // namespace single

const Algorithm single_grad_weight_first{"single", single::fits_first, single::grad_weight_workspace,
                                         single::run_grad_weight};
const Algorithm single_grad_weight_last{"single", single::fits_last, single::grad_weight_workspace,
                                        single::run_grad_weight};

}  // namespace tern::cuda::convolution
