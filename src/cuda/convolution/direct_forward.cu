#include "cuda/convolution/direct_tensor.cuh"

namespace tern::cuda::convolution {
namespace {

template <int K, int Channels>
__global__ void __launch_bounds__(most_threads)
    forward_kernel(float* y, const float* __restrict__ x, const float* __restrict__ weight, const float* bias,
                   const __grid_constant__ Planes p, const __grid_constant__ Cut cut, Divisor<std::uint32_t> weight_run,
                   Activation activation) {
  extern __shared__ float4 memory[];
  begin_kernel();
  const int o_block = cut.groups * Channels, o_pitch = o_block | 1;  // odd: no bank conflicts while transposing
  const int plane = p.rows * p.pitch;
  float* staged_x = reinterpret_cast<float*>(memory);
  float* staged_weight = staged_x + cut.images * cut.chunk * plane;
  const int o_first = static_cast<int>(blockIdx.y) * o_block, image_first = static_cast<int>(blockIdx.x) * cut.images;
  const int o_count = min(o_block, p.O - o_first);

  int t = static_cast<int>(threadIdx.x);
  const bool works = t < cut.threads;
  const int segment = t % p.segments;
  t /= p.segments;
  const int row = t % p.OH;
  t /= p.OH;
  const int group = t % cut.groups;
  t /= cut.groups;
  const int image = t % cut.images, split = t / cut.images;

  float sum[Channels][run] = {};
  for (int c0 = 0; c0 < p.C; c0 += cut.chunk) {
    const int channels = min(cut.chunk, p.C - c0);
    if (c0 > 0) __syncthreads();
    for (int i = 0; i < cut.images && image_first + i < p.N; ++i)
      stage_planes(staged_x + i * cut.chunk * plane,
                   x + (static_cast<std::int64_t>(image_first + i) * p.C + c0) * p.H * p.W, channels, p);
    const float* from = weight + (static_cast<std::int64_t>(o_first) * p.C + c0) * (K * K);
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x); i < o_count * cut.chunk * K * K; i += static_cast<int>(blockDim.x)) {
      int o, at;
      weight_run.split(i, o, at);
      if (at < channels * K * K) staged_weight[at * o_pitch + o] = from[o * p.C * (K * K) + at];
    }
    __syncthreads();
    if (works) {
      const float* my_x = staged_x + image * cut.chunk * plane + row * p.pitch + segment * run;
      const float* my_weight = staged_weight + group * Channels;
      for (int c = split; c < channels; c += cut.splits) {
#pragma unroll
        for (int kh = 0; kh < K; ++kh) {
          float in[run + 4];
          read_run(in, my_x + c * plane + kh * p.pitch, run + 4);
          const float* w = my_weight + (c * K + kh) * K * o_pitch;
#pragma unroll
          for (int kw = 0; kw < K; ++kw)
#pragma unroll
            for (int j = 0; j < Channels; ++j) {
              const float factor = w[kw * o_pitch + j];
#pragma unroll
              for (int i = 0; i < run; ++i) sum[j][i] = fmaf(in[i + kw], factor, sum[j][i]);
            }
        }
      }
    }
  }

  const auto finish = [&](int value, int thread, float total) {
    int rest = thread;
    const int column = rest % p.segments * run + value % run;
    rest /= p.segments;
    const int oh = rest % p.OH;
    rest /= p.OH;
    const int o = o_first + rest % cut.groups * Channels + value / run;
    const int n = image_first + rest / cut.groups;
    if (column >= p.OW || o >= p.O || n >= p.N) return;
    if (bias != nullptr) total += bias[o];
    y[((static_cast<std::int64_t>(n) * p.O + o) * p.OH + oh) * p.OW + column] = activate(total, activation);
  };
  if (cut.splits == 1) {
    const int n = image_first + image;
    if (!works || n >= p.N) return;
    const bool whole = p.OW % run == 0 && reinterpret_cast<std::uintptr_t>(y) % 16 == 0;
#pragma unroll
    for (int j = 0; j < Channels; ++j) {
      const int o = o_first + group * Channels + j;
      if (o >= p.O) break;
      const float shift = bias == nullptr ? 0.0f : bias[o];
      float* to = y + ((static_cast<std::int64_t>(n) * p.O + o) * p.OH + row) * p.OW + segment * run;
      float done[run];
#pragma unroll
      for (int i = 0; i < run; ++i) done[i] = activate(sum[j][i] + shift, activation);
      if (whole) {
        *reinterpret_cast<float4*>(to) = float4{done[0], done[1], done[2], done[3]};
        *reinterpret_cast<float4*>(to + 4) = float4{done[4], done[5], done[6], done[7]};
      } else {
#pragma unroll
        for (int i = 0; i < run; ++i)
          if (segment * run + i < p.OW) to[i] = done[i];
      }
    }
    return;
  }
  __syncthreads();
  float* part = reinterpret_cast<float*>(memory);
  if (works)
#pragma unroll
    for (int j = 0; j < Channels; ++j)
#pragma unroll
      for (int i = 0; i < run; ++i) part[(j * run + i) * cut.threads + static_cast<int>(threadIdx.x)] = sum[j][i];
  __syncthreads();
  add_splits(part, Channels * run, cut.threads, cut.splits, finish);
}

Cut forward_cut(const Problem& s, const Planes& p, int per_thread) {
  const auto window = static_cast<int>(s.KH * s.KW);
  Work work{};
  work.images = p.N, work.channels = p.C, work.groups = static_cast<int>(ceil_div(p.O, per_thread));
  work.lanes = p.OH * p.segments, work.values = per_thread * run, work.most_each = 1;
  work.alone = static_cast<double>(window * per_thread * run);
  work.terms = work.alone * work.lanes;
  work.image_bytes = sizeof(float) * static_cast<std::size_t>(p.rows * p.pitch);
  work.weight_bytes = sizeof(float) * static_cast<std::size_t>(window * per_thread);
  work.pitch_bytes = sizeof(float) * static_cast<std::size_t>(window);
  work.efficiency[0] = 1, work.registers = 96;
  return find_cut(work);
}

Cut chosen_cut(const Problem& shape) {
  struct Rule;
  return remembered<Rule>(shape, [&] { return forward_cut(shape, planes(shape), channels_per_thread(shape.O)); });
}

bool fits(const Problem& problem) {
  if (fits_tensor_forward(problem)) return true;
  return small_window(problem) && planes(problem).segments * problem.OH <= 128 && chosen_cut(problem).threads > 0;
}

void run_direct(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  if (fits_tensor_forward(problem)) return run_tensor_forward(context, problem, arrays);
  const Planes p = planes(problem);
  const int per_thread = channels_per_thread(problem.O);
  const Cut cut = chosen_cut(problem);
  with_sizes(problem.KH, per_thread, [&](auto window, auto channels) {
    constexpr auto kernel = forward_kernel<window.value, channels.value>;
    const dim3 blocks(static_cast<unsigned>(ceil_div(p.N, cut.images)),
                      static_cast<unsigned>(ceil_div(p.O, cut.groups * per_thread)));
    launch(context, Grid(blocks, whole_warps(cut.threads), cut.shared), kernel, static_cast<float*>(arrays.y),
           static_cast<const float*>(arrays.x), static_cast<const float*>(arrays.weight),
           static_cast<const float*>(arrays.bias), p, cut, Divisor<std::uint32_t>(cut.chunk * problem.KH * problem.KW),
           problem.activation);
  });
}

}  // namespace

const Way direct_forward{"direct", fits, nullptr, run_direct};

}  // namespace tern::cuda::convolution
