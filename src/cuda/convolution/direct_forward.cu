#include "cuda/convolution/direct.cuh"

namespace tern::cuda::convolution {
namespace {

template <int K, int Channels, bool Unrolled>
__global__ void __launch_bounds__(most_threads)
    forward_kernel(float* y, const float* __restrict__ x, const float* __restrict__ weight, const float* bias,
                   const __grid_constant__ Planes p, const __grid_constant__ Cut cut,
                   Divisor<std::uint32_t> weight_pitch, Activation activation) {
  extern __shared__ float4 memory[];
  const int o_block = cut.groups * Channels, plane = p.x.stride, image_area = p.x.H * p.x.W;
  const int stage_images = cut.images * cut.chunk * plane, pitch = static_cast<int>(weight_pitch.value());
  const int stage_size = (stage_images + o_block * pitch + 3) / 4 * 4;
  float* const staged = reinterpret_cast<float*>(memory);
  const int o_first = static_cast<int>(blockIdx.y) * o_block, image_first = static_cast<int>(blockIdx.x) * cut.images;
  const int o_count = min(o_block, p.O - o_first), image_count = min(cut.images, p.N - image_first);

  int t = static_cast<int>(threadIdx.x);
  const bool works = t < cut.threads;
  const int segment = t % p.segments;
  t /= p.segments;
  const int row = t % p.OH;
  t /= p.OH;
  const int group = t % cut.groups;
  t /= cut.groups;
  const int image = t % cut.images, split = t / cut.images;

  begin_kernel();
  float sum[Channels][run] = {};
  each_chunk((p.C + cut.chunk - 1) / cut.chunk,
             [&](int chunk, int stage) {
               const int c = chunk * cut.chunk, channels = min(cut.chunk, p.C - c);
               float* const to = staged + stage * stage_size;
               for (int i = 0; i < image_count; ++i)
                 copy_planes(to + i * cut.chunk * plane,
                             x + (static_cast<std::int64_t>(image_first + i) * p.C + c) * image_area, channels, p.x);
               copy_lines(to + stage_images, weight + (static_cast<std::int64_t>(o_first) * p.C + c) * (K * K), o_count,
                          channels * K * K, p.C * K * K, weight_pitch);
             },
             [&](int chunk, int stage) {
               if (!works) return;
               const int channels = min(cut.chunk, p.C - chunk * cut.chunk);
               const float* const my_x =
                   staged + stage * stage_size + image * cut.chunk * plane + row * p.x.pitch + segment * run;
               // A group has every groups-th channel, so that adjacent lines are in different banks.
               const float* const my_weight = staged + stage * stage_size + stage_images + group * pitch;
               for (int c = split; c < channels; c += cut.splits) {
#pragma unroll Unrolled ? K : 1
                 for (int kh = 0; kh < K; ++kh) {
                   float in[run + 4];
                   read_run(in, my_x + c * plane + kh * p.x.pitch, run + 4);
                   const float* const w = my_weight + (c * K + kh) * K;
#pragma unroll
                   for (int j = 0; j < Channels; ++j)
#pragma unroll
                     for (int kw = 0; kw < K; ++kw) {
                       const float factor = w[j * cut.groups * pitch + kw];
#pragma unroll
                       for (int i = 0; i < run; ++i) sum[j][i] = fmaf(in[i + kw], factor, sum[j][i]);
                     }
                 }
               }
             });

  const bool whole = p.OW % run == 0 && reinterpret_cast<std::uintptr_t>(y) % 16 == 0;
  const auto finish = [&](int n, int o, int oh, int column, const float* sums) {
    if (o >= p.O || n >= p.N) return;
    const float shift = bias == nullptr ? 0.0f : bias[o];
    float* const to = y + ((static_cast<std::int64_t>(n) * p.O + o) * p.OH + oh) * p.OW + column;
    float done[run];
#pragma unroll
    for (int i = 0; i < run; ++i) done[i] = activate(sums[i] + shift, activation);
    if (whole) {
      *reinterpret_cast<float4*>(to) = float4{done[0], done[1], done[2], done[3]};
      *reinterpret_cast<float4*>(to + 4) = float4{done[4], done[5], done[6], done[7]};
    } else {
#pragma unroll
      for (int i = 0; i < run; ++i)
        if (column + i < p.OW) to[i] = done[i];
    }
  };
  if (cut.splits == 1) {
    if (!works) return;
#pragma unroll
    for (int j = 0; j < Channels; ++j)
      finish(image_first + image, o_first + group + j * cut.groups, row, segment * run, sum[j]);
    return;
  }
  float* const part = staged;
  if (works)
#pragma unroll
    for (int j = 0; j < Channels; ++j)
#pragma unroll
      for (int i = 0; i < run; ++i) part[(j * run + i) * cut.threads + static_cast<int>(threadIdx.x)] = sum[j][i];
  __syncthreads();
  add_splits<run>(part, Channels, cut.threads, cut.splits, [&](int line, int thread, const float* sums) {
    int rest = thread;
    const int column = rest % p.segments * run;
    rest /= p.segments;
    const int oh = rest % p.OH;
    rest /= p.OH;
    finish(image_first + rest / cut.groups, o_first + rest % cut.groups + line * cut.groups, oh, column, sums);
  });
}

Cut forward_cut(const Problem& s, const Planes& p, int per_thread) {
  const auto window = static_cast<int>(s.KH * s.KW);
  Work work{};
  work.images = p.N, work.channels = p.C, work.groups = static_cast<int>(ceil_div(p.O, per_thread));
  work.lanes = p.OH * p.segments, work.values = per_thread * run;
  work.executed = [thread = static_cast<double>(window * per_thread * run)](const Cut& cut) {
    return whole_warps(cut.threads) * thread / cut.splits;
  };
  work.image_bytes = sizeof(float) * static_cast<std::size_t>(p.x.stride);
  work.weight_bytes = sizeof(float) * static_cast<std::size_t>(window * per_thread);
  work.group_padding = sizeof(float) * static_cast<std::size_t>(7 * per_thread);
  work.efficiency = 1.42, work.copied = 14.7, work.registers = 80;
  return find_cut(work);
}

Cut chosen_cut(const Problem& shape) {
  struct Rule;
  return remembered<Rule>(shape, [&] { return forward_cut(shape, planes(shape), channels_per_thread(shape.O)); });
}

bool fits(const Problem& problem) {
  return small_window(problem) && planes(problem).segments * problem.OH <= 128 && chosen_cut(problem).threads > 0;
}

void run_direct(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  const Planes p = planes(problem);
  const int per_thread = channels_per_thread(problem.O);
  const Cut cut = chosen_cut(problem);
  with_sizes(problem.KH, per_thread, [&](auto window, auto channels) {
    const dim3 blocks(static_cast<unsigned>(ceil_div(p.N, cut.images)),
                      static_cast<unsigned>(ceil_div(p.O, cut.groups * per_thread)));
    // Unrolled it uses more registers, which are free if each block has its own multiprocessor.
    const bool spread = static_cast<int>(blocks.x * blocks.y) <= card().multiprocessors;
    constexpr auto unrolled = forward_kernel<window.value, channels.value, true>;
    constexpr auto rolled = forward_kernel<window.value, channels.value, false>;
    const auto kernel = spread ? unrolled : rolled;
    launch(context, Grid(blocks, whole_warps(cut.threads), cut.shared), kernel, static_cast<float*>(arrays.y),
           static_cast<const float*>(arrays.x), static_cast<const float*>(arrays.weight),
           static_cast<const float*>(arrays.bias), p, cut,
           Divisor<std::uint32_t>(pitch_of_lines(cut.chunk * window.value * window.value)), problem.activation);
  });
}

}  // namespace

const Algorithm direct_forward{"direct", fits, nullptr, run_direct};

}  // namespace tern::cuda::convolution
