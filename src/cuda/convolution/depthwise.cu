#include <algorithm>
#include <type_traits>

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/depthwise.cuh"

namespace tern::cuda::convolution {
namespace depthwise {

bool fits(const Problem& p) {
  return is_depthwise(p) && p.KH * p.KW <= most_taps && (p.element == Element::float32 || !p.channels_last()) &&
         is_countable(p);
}
namespace {

constexpr int most_threads = 256, lanes = 32;

/// The weights of a block's channels, [taps][width], in shared memory. Every thread calls it.
template <class T, class E>
__device__ __forceinline__ void stage_weights(T* shared, const E* weight, int first, int width, int channels,
                                              int taps) {
  constexpr int at_once = 8;  // loads in flight
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  const int count = min(width, channels - first) * taps;
  const E* const own = weight + static_cast<std::int64_t>(first) * taps;
  for (int i = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); i < count; i += at_once * threads) {
    T values[at_once];
#pragma unroll
    for (int j = 0; j < at_once; ++j)
      if (i + j * threads < count) values[j] = widened(own[i + j * threads]);
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      const int at = i + j * threads, channel = at / taps;
      if (at < count) shared[(at - channel * taps) * width + channel] = values[j];
    }
  }
  __syncthreads();
}

/// sum += window * weight over one row of taps. Gradients that do not exist are skipped; padding is multiplied.
template <bool back, int K, int S, int R, class T, int V, class E, class Weight>
__device__ __forceinline__ void add_row(Pack<T, V> (&sum)[R], const E* row, bool exists, int first, const Side& strip,
                                        const Weight& weight) {
  using Strip = Window<back, K, S, R>;
  Pack<T, V> window[Strip::length];
  load_window<V>(window, row, exists, first, strip);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const Pack<T, V> factor = weight(k);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int j = Strip::place(r, k);
      if (j < 0) continue;
      if (back && static_cast<unsigned>(first + j) >= static_cast<unsigned>(strip.read)) continue;
#pragma unroll
      for (int v = 0; v < V; ++v) sum[r].value[v] = fma(window[j].value[v], factor.value[v], sum[r].value[v]);
    }
  }
}

/// Channels last: a thread has four channels and walks down some rows.
template <bool back, int K, int S, int R, class E>
__global__ void __launch_bounds__(most_threads)
    lasting_kernel(E* to, const E* from, const E* weight, const E* bias, const __grid_constant__ Work work,
                   Activation activation) {
  constexpr int V = 4;
  extern __shared__ float4 shared_vectors[];
  float* const shared = reinterpret_cast<float*>(shared_vectors);
  begin_kernel();
  const int width = static_cast<int>(blockDim.x) * V, block_channel = static_cast<int>(blockIdx.y) * width;
  stage_weights(shared, weight, block_channel, width, work.channels, K * K);
  const int channel = block_channel + static_cast<int>(threadIdx.x) * V;
  auto image = static_cast<std::uint32_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int strip = static_cast<int>(work.strips.split(image)), part = static_cast<int>(work.parts.split(image));
  if (channel >= work.channels || image >= static_cast<unsigned>(work.images)) return;
  using Strip = Window<back, K, S, R>;
  const int first = Strip::first_read(strip, work.strip.pad), written = Strip::first_written(strip, work.strip.pad);
  const E* const read = from + image * work.read_image + first * work.strip.read_pitch + channel;
  E* const write = to + image * work.write_image + written * work.strip.write_pitch + channel;
  const float* const own = shared + threadIdx.x * V;
  const int end = min((part + 1) * work.rows_each, work.across.written);
  for (int at = part * work.rows_each; at < end; ++at) {
    Pack<float, V> sum[R] = {};
    const Reach reach(back, at, work.across);
    int row = reach.row;
#pragma unroll(K == 3 ? 3 : 1)
    for (int tap = reach.first; tap < K; tap += back ? S : 1, row += back ? -1 : 1) {
      const bool exists = static_cast<unsigned>(row) < static_cast<unsigned>(work.across.read);
      if (back && !exists) continue;
      add_row<back, K, S>(sum, read + row * work.across.read_pitch, exists, first, work.strip,
                          [&](int k) { return load<V>(own + (tap * K + k) * width); });
    }
    finish(write + at * work.across.write_pitch, sum, bias == nullptr ? bias : bias + channel, written, work.strip,
           activation);
  }
}

/// Through the cache of what no kernel writes meanwhile.
__device__ __forceinline__ float constant(const float* from) { return __ldg(from); }
template <class E>
__device__ __forceinline__ float constant(const E* from) {
  E element;
  element.bits = __ldg(&from->bits);
  return widened(element);
}

/// Channels first: a thread has a strip of a column.
template <bool back, int K, int S, int R, class E>
__global__ void __launch_bounds__(most_threads)
    planar_kernel(E* to, const E* from, const E* weight, const E* bias, const __grid_constant__ Work work,
                  Activation activation) {
  begin_kernel();
  auto plane = static_cast<std::uint32_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int at = static_cast<int>(work.parts.split(plane)), strip = static_cast<int>(work.strips.split(plane));
  if (plane >= static_cast<unsigned>(work.images)) return;
  const int channel = static_cast<int>(plane) % work.channels;
  using Strip = Window<back, K, S, R>;
  const int first = Strip::first_read(strip, work.strip.pad), written = Strip::first_written(strip, work.strip.pad);
  const E* const read = from + plane * work.read_image + first * work.strip.read_pitch;
  const E* const own = weight + static_cast<std::int64_t>(channel) * (K * K);
  Pack<float, 1> sum[R] = {};
  const Reach reach(back, at, work.across);
  int column = reach.row;
#pragma unroll
  for (int tap = back ? reach.first : 0; tap < K; tap += back ? S : 1, column += back ? -1 : 1) {
    const bool exists = static_cast<unsigned>(column) < static_cast<unsigned>(work.across.read);
    if (back && !exists) continue;
    add_row<back, K, S>(sum, read + column * work.across.read_pitch, exists, first, work.strip,
                        [&](int k) { return Pack<float, 1>{constant(own + k * K + tap)}; });
  }
  finish(to + plane * work.write_image + written * work.strip.write_pitch + at * work.across.write_pitch, sum,
         bias == nullptr ? bias : bias + channel, written, work.strip, activation);
}

/// Any kernel, stride, dilation and alignment: a thread has one output.
template <class T, bool last>
__global__ void __launch_bounds__(most_threads)
    any_kernel(T* to, const T* from, const T* weight, const T* bias, const __grid_constant__ Work work, bool back,
               Activation activation) {
  begin_kernel();
  auto image = static_cast<std::uint32_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  int channel = 0, strip = 0, at = 0;
  if (last) {
    const std::uint32_t position = image / static_cast<unsigned>(work.channels);
    channel = static_cast<int>(image - position * static_cast<unsigned>(work.channels));
    image = position;
    strip = static_cast<int>(work.strips.split(image));
    at = static_cast<int>(work.parts.split(image));
  } else {
    at = static_cast<int>(work.parts.split(image));
    strip = static_cast<int>(work.strips.split(image));
    channel = static_cast<int>(image) % work.channels;
  }
  if (image >= static_cast<unsigned>(work.images)) return;
  const T* const read = from + image * work.read_image + (last ? channel : 0);
  const T* const own = weight + static_cast<std::int64_t>(channel) * (work.strip.taps * work.across.taps);
  const Side &rows = last ? work.across : work.strip, &columns = last ? work.strip : work.across;
  const int row_at = last ? at : strip, column_at = last ? strip : at;
  // The position that a tap reads; below 0 or beyond the end: nothing.
  const auto position = [back](int written, int tap, const Side& side) {
    if (!back) return written * side.stride - side.pad + tap * side.dilation;
    const int padded = written + side.pad - tap * side.dilation;
    return padded % side.stride == 0 && padded >= 0 ? padded / side.stride : -1;
  };
  Scalar<T> sum = 0;
  for (int kh = 0; kh < rows.taps; ++kh) {
    const int h = position(row_at, kh, rows);
    const bool row_exists = h >= 0 && h < rows.read;
    if (back && !row_exists) continue;
    for (int kw = 0; kw < columns.taps; ++kw) {
      const int w = position(column_at, kw, columns);
      const bool exists = row_exists && w >= 0 && w < columns.read;
      if (back && !exists) continue;
      const Scalar<T> value = exists ? widened(read[h * rows.read_pitch + w * columns.read_pitch]) : Scalar<T>(0);
      sum = fma(value, widened(own[kh * columns.taps + kw]), sum);
    }
  }
  put(to[image * work.write_image + row_at * rows.write_pitch + column_at * columns.write_pitch + (last ? channel : 0)],
      activate(bias == nullptr ? sum : sum + widened(bias[channel]), activation));
}

template <class T>
void run_any(const Context& context, const Problem& p, const Arrays& arrays) {
  Work work = work_of(p);
  work.strips = Divisor<std::uint32_t>(work.strip.written);
  work.parts = Divisor<std::uint32_t>(work.across.written);
  const std::int64_t count =
      static_cast<std::int64_t>(work.images) * work.strip.written * work.across.written * (p.channels_last() ? p.C : 1);
  const Operands<T> on(p, arrays);
  launch(context, Grid(static_cast<unsigned>(ceil_div(count, most_threads)), most_threads),
         p.channels_last() ? any_kernel<T, true> : any_kernel<T, false>, on.to, on.from, on.weight, on.bias, work,
         p.pass == Pass::grad_x, on.activation);
}

/// Channels last, in strips of R positions.
template <bool back, int K, int S, int R, class E>
void run_lasting_by(const Context& context, const Problem& p, Work work, const Operands<E>& on) {
  const std::int64_t strips = Window<back, K, S, R>::strips(work.strip.written, work.strip.pad);
  work.strips = Divisor<std::uint32_t>(strips);
  const Lanes lay(p.C / 4, most_threads, lanes);
  // Vertically adjacent rows share what they read, as long as there are enough blocks for the card.
  const auto blocks = [&] {
    return ceil_div(work.images * ceil_div(work.across.written, work.rows_each) * strips, lay.rows);
  };
  work.rows_each = 8;
  while (work.rows_each > 1 && blocks() * lay.tiles < card().multiprocessors * 4ll) work.rows_each /= 2;
  work.parts = Divisor<std::uint32_t>(ceil_div(work.across.written, work.rows_each));
  launch(context,
         Grid(dim3(static_cast<unsigned>(blocks()), static_cast<unsigned>(lay.tiles)),
              dim3(static_cast<unsigned>(lay.lanes), static_cast<unsigned>(lay.rows)),
              sizeof(float) * 4 * static_cast<std::size_t>(lay.lanes) * K * K),
         lasting_kernel<back, K, S, R, E>, on.to, on.from, on.weight, on.bias, work, on.activation);
}

template <bool back, int K, int S, class E>
void run_lasting(const Context& context, const Problem& p, const Work& work, const Operands<E>& on) {
  // Long strips share more of what they read; short ones are more threads where there are few. The sums are the same.
  constexpr int longest = K == 3 ? 4 : 8, few = 512;
  const std::int64_t written = p.pass == Pass::grad_x ? p.images() : p.outputs();
  if (K > 3 && written / (4 * longest) < card().multiprocessors * static_cast<std::int64_t>(few))
    return run_lasting_by<back, K, S, 2, E>(context, p, work, on);
  run_lasting_by<back, K, S, longest, E>(context, p, work, on);
}

template <bool back, int K, int S, class E>
void run_strips(const Context& context, const Problem& p, Work work, const Operands<E>& on) {
  if (p.channels_last()) return run_lasting<back, K, S, E>(context, p, work, on);
  constexpr int R = K == 3 ? 4 : 8;
  const std::int64_t strips = Window<back, K, S, R>::strips(work.strip.written, work.strip.pad);
  work.strips = Divisor<std::uint32_t>(strips);
  work.parts = Divisor<std::uint32_t>(work.across.written);
  const std::int64_t count = work.images * strips * work.across.written;
  launch(context, Grid(static_cast<unsigned>(ceil_div(count, most_threads)), most_threads),
         planar_kernel<back, K, S, R, E>, on.to, on.from, on.weight, on.bias, work, on.activation);
}

template <class E>
void run_as(Context& context, const Problem& p, const Arrays& arrays) {
  const bool phased = has_phases(p);
  if ((!is_usual(p) && !phased) || (p.channels_last() && !in_fours(p))) return run_any<E>(context, p, arrays);
  const Operands<E> on(p, arrays);
  const auto start = [&](const Problem& one, const Work& work, const Operands<E>& at) {
    with_kernel(one, [&](auto size, auto stride) {
      if (p.pass == Pass::grad_x) return run_strips<true, size.value, stride.value, E>(context, p, work, at);
      run_strips<false, size.value, stride.value, E>(context, p, work, at);
    });
  };
  if (!phased) return start(p, work_of(p), on);
  if (p.pass == Pass::grad_x && p.stride_h > 1)  // no output reads the positions between
    check(cudaMemsetAsync(on.to, 0, static_cast<std::size_t>(p.images()) * sizeof(E), stream_of(context)), "clearing");
  for_phases(p, [&](const Phase& phase) {
    Operands<E> at = on;
    at.from += phase.read, at.to += phase.write;
    start(of_phase(p), phase.work, at);
  });
}

void run(Context& context, const Problem& p, const Arrays& arrays, int, void*) {
  if (p.element == Element::float64) return run_any<double>(context, p, arrays);
  with_stored(p, [&](auto* none) { run_as<std::remove_pointer_t<decltype(none)>>(context, p, arrays); });
}

}  // namespace
}  // namespace depthwise

const Algorithm depthwise_forward{"depthwise", depthwise::fits, nullptr, depthwise::run};
const Algorithm depthwise_grad_x{"depthwise", depthwise::fits, nullptr, depthwise::run};

}  // namespace tern::cuda::convolution
