// The forward pass and the gradient of x of convolutions with one input channel or one output. From one plane to many,
// a thread keeps the windows of a strip in registers and writes the strip in one plane after the other. From many to
// one, groups of threads share the sum over the planes, in a fixed order.

#include <algorithm>

#include "cuda/convolution/single.cuh"
#include "cuda/fused.cuh"

namespace tern::cuda::convolution {
namespace single {

bool walks(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31, side = std::int64_t{1} << 15;
  const bool square = p.KH == p.KW && p.KH % 2 == 1 && p.KH <= 7 && p.stride_h == p.stride_w &&
                      p.dilation_h == p.dilation_w && p.stride_h <= 2 &&
                      (p.stride_h == 1 || p.dilation_h == 1 || p.stride_h == p.dilation_h);
  const std::int64_t longest = std::max(p.H, p.OH) + 8 * p.dilation_h;  // whole strips
  const bool counted = p.images() < most && p.outputs() < most && p.N * longest * std::max(p.W, p.OW) < most &&
                       longest < side && p.W < side && p.OW < side && p.pad_h < side && p.pad_w < side &&
                       std::max(p.C, p.O) <= 65535;
  return square && counted && !p.channels_last() && !p.pools && p.element == Element::float32;
}
bool fits(const Problem& p) { return walks(p) && p.groups == 1 && std::min(p.C, p.O) == 1; }

bool is_preferred(const Problem& p) {
  constexpr std::int64_t most = 32;  // planes of layers such as LeNet's first, which other kernels take whole
  const Algorithm* const small[][2]{{&direct_forward, &direct_tensor_forward_last},
                                    {&direct_grad_x, &direct_tensor_grad_x_last},
                                    {&direct_grad_weight, &direct_tensor_grad_weight}};
  // Of many planes with a stride, large windows read mostly zeros, or rows that no other thread shares.
  if (p.tensor_cores() && p.C == 1 && p.O > 2 * most && p.stride_h > 1 && p.KH >= 5 && p.pass != Pass::forward)
    return false;
  if (std::max(p.C, p.O) > most || p.O == 1) return true;
  const auto& others = small[p.pass == Pass::forward ? 0 : p.pass == Pass::grad_x ? 1 : 2];
  return std::none_of(std::begin(others), std::end(others), [&](const Algorithm* other) { return other->fits(p); });
}

Walk walk_of(const Problem& p, bool back) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  Walk walk{};
  walk.images = i(p.N), walk.planes = i(std::max(p.C, p.O)), walk.dilation = i(p.dilation_h);
  walk.read_h = i(back ? p.OH : p.H), walk.read_w = i(back ? p.OW : p.W);
  walk.at_h = i(back ? p.H : p.OH), walk.at_w = i(back ? p.W : p.OW);
  walk.stride = back ? 1 : i(p.stride_h), walk.apart = back ? i(p.stride_h) : 1;
  const std::int64_t reach = (p.KH - 1) * p.dilation_h;
  walk.pad_h = i(back ? reach - p.pad_h : p.pad_h), walk.pad_w = i(back ? reach - p.pad_w : p.pad_w);
  walk.step = walk.stride == 1 ? walk.dilation : 1;
  return walk;
}

namespace {

template <int K>
constexpr int weight_pitch = K == 1 ? 1 : K* tap_pitch<K>;

/// The weights of `count` planes, turned by 180 degrees on the way back. Every thread calls it.
template <int K, class E>
__device__ __forceinline__ void stage_weights(float* shared, const E* weight, int count, bool turned) {
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  for (int i = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); i < count * (K * K); i += threads) {
    const int plane = i / (K * K), stored = i - plane * (K * K), tap = turned ? K * K - 1 - stored : stored;
    shared[plane * weight_pitch<K> + (K == 1 ? 0 : tap % K * tap_pitch<K> + tap / K)] = widened(weight[i]);
  }
  __syncthreads();
}

/// The sums of a chunk of planes are float32.
template <class E, class Out = E>
struct Arguments {
  Out* to;
  const E *from, *weight, *bias;
  Activation activation;
  bool back;
  int chunk;  ///< planes of a block
};

/// One plane to many: blocks of strips by chunks of planes.
template <int K, int S, bool apart, class E>
__global__ void __launch_bounds__(256)
    spread_kernel(const __grid_constant__ Arguments<E> on, const __grid_constant__ Walk walk) {
  constexpr int rows = rows_of<K, S>;
  extern __shared__ float4 memory[];
  float* const weights = reinterpret_cast<float*>(memory);
  const int first = static_cast<int>(blockIdx.y) * on.chunk, count = min(on.chunk, walk.planes - first);
  begin_kernel();
  stage_weights<K>(weights, on.weight + static_cast<std::int64_t>(first) * (K * K), count, on.back);
  const Strip<rows> strip(blockIdx.x * blockDim.x + threadIdx.x, walk);
  if (strip.image >= walk.images) return;
  Window<K, S, apart, rows> window[K];
#pragma unroll
  for (int kw = 0; kw < K; ++kw)
    window[kw].load(on.from + static_cast<std::int64_t>(strip.image) * walk.read_h * walk.read_w, strip, kw, walk);
  E* to = on.to + ((static_cast<std::int64_t>(strip.image) * walk.planes + first) * walk.at_h + strip.row) * walk.at_w +
          strip.column;
#pragma unroll 1
  for (int plane = 0; plane < count; ++plane, to += walk.at_h * walk.at_w) {
    float sum[rows] = {};
#pragma unroll
    for (int kw = 0; kw < K; ++kw) {
      const Taps<K> taps(weights + plane * weight_pitch<K>, kw);
#pragma unroll
      for (int kh = 0; kh < K; ++kh)
#pragma unroll
        for (int r = 0; r < rows; ++r) sum[r] = fmaf(window[kw].value[r * S + kh], taps.value[kh], sum[r]);
    }
    const float shift = on.bias == nullptr ? 0.0f : widened(on.bias[first + plane]);
#pragma unroll
    for (int r = 0; r < rows; ++r)
      if (strip.row + r * walk.step < walk.at_h)
        put(to[r * walk.step * walk.at_w], activate(on.bias == nullptr ? sum[r] : sum[r] + shift, on.activation));
  }
}

constexpr int groups = 8;  // of 32 threads, which share a sum

/// Many planes to one: a warp sums every groups-th plane of its block's chunk; the block adds its warps. Blocks of
/// strips by chunks; with several chunks each writes an image of its own.
template <int K, int S, bool apart, class E, class Out>
__global__ void __launch_bounds__(32 * groups, K == 1 ? 4 : 3)
    sum_kernel(const __grid_constant__ Arguments<E, Out> on, const __grid_constant__ Walk walk) {
  constexpr int rows = rows_of<K, S>;
  __shared__ float parts[groups][rows][32];
  extern __shared__ float4 memory[];
  float* const weights = reinterpret_cast<float*>(memory);
  const int lane = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y);
  const int first = static_cast<int>(blockIdx.y) * on.chunk, count = min(on.chunk, walk.planes - first);
  begin_kernel();
  stage_weights<K>(weights, on.weight + static_cast<std::int64_t>(first) * (K * K), count, on.back);
  const Strip<rows> strip(blockIdx.x * 32u + threadIdx.x, walk);
  const bool exists = strip.image < walk.images;
  const int area = walk.read_h * walk.read_w;
  const E* const from = on.from + (static_cast<std::int64_t>(exists ? strip.image : 0) * walk.planes + first) * area;
  float sum[rows] = {};
#pragma unroll(K == 1 ? 4 : 1)
  for (int plane = exists ? group : count; plane < count; plane += groups) {
    const float* const weight = weights + plane * weight_pitch<K>;
#pragma unroll(K <= 3 && S == 1 ? K : 1)
    for (int kw = 0; kw < K; ++kw) {
      Window<K, S, apart, rows> window;
      window.load(from + static_cast<std::int64_t>(plane) * area, strip, kw, walk);
      const Taps<K> taps(weight, kw);
#pragma unroll
      for (int kh = 0; kh < K; ++kh)
#pragma unroll
        for (int r = 0; r < rows; ++r) sum[r] = fmaf(window.value[r * S + kh], taps.value[kh], sum[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) parts[group][r][lane] = sum[r];
  __syncthreads();
  if (group >= rows || !exists || strip.row + group * walk.step >= walk.at_h) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < groups; ++i) total += parts[i][group][lane];
  const std::int64_t image = static_cast<std::int64_t>(blockIdx.y) * walk.images + strip.image;
  put(on.to[(image * walk.at_h + strip.row + group * walk.step) * walk.at_w + strip.column],
      activate(on.bias == nullptr ? total : total + widened(*on.bias), on.activation));
}

/// Adds the images of the chunks: every groups-th by a warp, then the warps' sums, in order.
template <class E>
__global__ void __launch_bounds__(32 * groups)
    add_chunks_kernel(E* to, const float* partials, int chunks, std::int64_t count, const E* bias,
                      Activation activation) {
  __shared__ float parts[groups][32];
  begin_kernel();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  float sum = 0;
  if (at < count) {
#pragma unroll 8
    for (int chunk = static_cast<int>(threadIdx.y); chunk < chunks; chunk += groups)
      sum += partials[chunk * count + at];
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || at >= count) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < groups; ++i) total += parts[i][threadIdx.x];
  put(to[at], activate(bias == nullptr ? total : total + widened(*bias), activation));
}

// ---- launches ----

bool spreads(const Problem& p) { return (p.pass == Pass::forward ? p.C : p.O) == 1; }

template <class E>
Arguments<E> arguments_of(const Problem& p, const Arrays& arrays) {
  const bool back = p.pass == Pass::grad_x;
  const auto typed = [](void* array) { return static_cast<E*>(array); };
  return {typed(back ? arrays.x : arrays.y),
          typed(back ? arrays.y : arrays.x),
          typed(arrays.weight),
          back ? nullptr : typed(arrays.bias),
          back ? Activation::none : p.activation,
          back,
          0};
}

/// Planes of a block, so that there are enough blocks for the card.
int chunk_of(std::int64_t blocks, std::int64_t planes, int least, int most) {
  constexpr std::int64_t wanted = 8;  // blocks for each multiprocessor
  const std::int64_t chunks = std::max<std::int64_t>(1, wanted * card().multiprocessors / blocks);
  return static_cast<int>(std::clamp<std::int64_t>(ceil_div(planes, chunks), least, most));
}

int rows_of_problem(const Problem& p, bool back) {
  int rows = 0;
  with_window(p, back, [&](auto size, auto stride, auto) { rows = rows_of<size.value, stride.value>; });
  return rows;
}

template <int K>
std::size_t shared_bytes(int chunk) {
  return sizeof(float) * static_cast<std::size_t>(ceil_div(chunk * weight_pitch<K>, 4) * 4);
}

template <class E>
void run_spread(const Context& context, const Problem& p, const Arrays& arrays) {
  const bool back = p.pass == Pass::grad_x;
  Walk walk = walk_of(p, back);
  Arguments<E> on = arguments_of<E>(p, arrays);
  with_window(p, back, [&](auto size, auto stride, auto apart) {
    constexpr int rows = rows_of<size.value, stride.value>;
    walk.cut(rows);
    const std::int64_t blocks = ceil_div(walk.items(rows), 256);
    on.chunk = chunk_of(blocks, walk.planes, 1, 64);
    launch(context,
           Grid(dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(ceil_div(walk.planes, on.chunk))), 256,
                shared_bytes<size.value>(on.chunk)),
           spread_kernel<size.value, stride.value, apart.value, E>, on, walk);
  });
}

int sum_chunk(const Walk& walk, int rows) { return chunk_of(ceil_div(walk.items(rows), 32), walk.planes, groups, 128); }
std::int64_t sum_chunks(const Problem& p) {
  const bool back = p.pass == Pass::grad_x;
  const Walk walk = walk_of(p, back);
  return ceil_div(walk.planes, sum_chunk(walk, rows_of_problem(p, back)));
}

template <class E, class Out>
void launch_sum(const Context& context, const Problem& p, Arguments<E, Out> on, std::int64_t chunks) {
  const bool back = p.pass == Pass::grad_x;
  Walk walk = walk_of(p, back);
  with_window(p, back, [&](auto size, auto stride, auto apart) {
    constexpr int rows = rows_of<size.value, stride.value>;
    walk.cut(rows);
    on.chunk = sum_chunk(walk, rows);
    launch(context,
           Grid(dim3(static_cast<unsigned>(ceil_div(walk.items(rows), 32)), static_cast<unsigned>(chunks)),
                dim3(32, groups), shared_bytes<size.value>(on.chunk)),
           sum_kernel<size.value, stride.value, apart.value, E, Out>, on, walk);
  });
}

template <class E>
void run_sum(const Context& context, const Problem& p, const Arrays& arrays, float* partials) {
  const Arguments<E> whole = arguments_of<E>(p, arrays);
  const std::int64_t chunks = sum_chunks(p);
  if (chunks == 1) return launch_sum<E, E>(context, p, whole, chunks);
  launch_sum<E, float>(
      context, p, {partials, whole.from, whole.weight, nullptr, Activation::none, whole.back, whole.chunk}, chunks);
  const std::int64_t count = p.N * (p.pass == Pass::grad_x ? p.H * p.W : p.OH * p.OW);
  launch(context, Grid(static_cast<unsigned>(ceil_div(count, 32)), dim3(32, groups)), add_chunks_kernel<E>, whole.to,
         partials, static_cast<int>(chunks), count, whole.bias, whole.activation);
}

std::size_t workspace(const Problem& p, int) {
  if (spreads(p)) return 0;
  const std::int64_t chunks = sum_chunks(p), count = p.N * (p.pass == Pass::grad_x ? p.H * p.W : p.OH * p.OW);
  return chunks == 1 ? 0 : static_cast<std::size_t>(chunks * count) * sizeof(float);
}

void run(Context& context, const Problem& p, const Arrays& arrays, int, void* workspace) {
  with_stored(p, [&](auto* none) {
    using E = std::remove_pointer_t<decltype(none)>;
    if (spreads(p)) return run_spread<E>(context, p, arrays);
    run_sum<E>(context, p, arrays, static_cast<float*>(workspace));
  });
}

}  // namespace
}  // namespace single

const Algorithm single_forward_first{"single", single::fits_first, single::workspace, single::run};
const Algorithm single_forward_last{"single", single::fits_last, single::workspace, single::run};
const Algorithm single_grad_x_first{"single", single::fits_first, single::workspace, single::run};
const Algorithm single_grad_x_last{"single", single::fits_last, single::workspace, single::run};

}  // namespace tern::cuda::convolution
