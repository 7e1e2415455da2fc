#include <algorithm>

#include "cuda/convolution/direct.cuh"

namespace tern::cuda::convolution {
namespace {

// For outputs of at most one run per row: every multiply-add belongs to the sum, none meets the horizontal padding.
template <int K, int Channels>
__global__ void __launch_bounds__(most_threads)
    grad_x_kernel(float* grad_x, const float* __restrict__ g, const float* __restrict__ weight,
                  const __grid_constant__ Planes p, const __grid_constant__ Cut cut,
                  Divisor<std::uint32_t> weight_pitch) {
  extern __shared__ float4 memory[];
  constexpr int wide = run + K - 1;
  const int c_block = cut.groups * Channels, g_stride = p.y.stride, image_area = p.OH * p.OW;
  const int image_pitch = cut.chunk * g_stride + 4;  // images start on different banks
  const int stage_images = cut.images * image_pitch, pitch = static_cast<int>(weight_pitch.value());
  const int stage_size = (stage_images + cut.chunk * pitch + 3) / 4 * 4;
  float* const staged = reinterpret_cast<float*>(memory);
  const int c_first = static_cast<int>(blockIdx.y) * c_block, image_first = static_cast<int>(blockIdx.x) * cut.images;
  const int c_count = min(c_block, p.C - c_first), image_count = min(cut.images, p.N - image_first);

  // Rows at the edge have fewer terms than others, so a warp's lanes share a row if there are enough lanes.
  int t = static_cast<int>(threadIdx.x);
  const bool works = t < cut.threads;
  const int group = t % cut.groups;
  t /= cut.groups;
  const int image = t % cut.images;
  t /= cut.images;
  const int split = t % cut.splits, h = t / cut.splits;

  begin_kernel();
  float sum[Channels][wide] = {};
  each_chunk((p.O + cut.chunk - 1) / cut.chunk,
             [&](int chunk, int stage) {
               const int o = chunk * cut.chunk, channels = min(cut.chunk, p.O - o);
               float* const to = staged + stage * stage_size;
               for (int i = 0; i < image_count; ++i)
                 copy_planes(to + i * image_pitch,
                             g + (static_cast<std::int64_t>(image_first + i) * p.O + o) * image_area, channels, p.y);
               copy_lines(to + stage_images, weight + (static_cast<std::int64_t>(o) * p.C + c_first) * (K * K),
                          channels, c_count * K * K, p.C * K * K, weight_pitch);
             },
             [&](int chunk, int stage) {
               if (!works) return;
               const int channels = min(cut.chunk, p.O - chunk * cut.chunk);
               const float* const my_g = staged + stage * stage_size + image * image_pitch;
               const float* const my_weight = staged + stage * stage_size + stage_images + group * Channels * (K * K);
               for (int o = split; o < channels; o += cut.splits) {
#pragma unroll 1
                 for (int kh = 0; kh < K; ++kh) {
                   const int oh = h + p.x.pad_h - kh;
                   if (oh < 0 || oh >= p.OH) continue;
                   float in[run];
                   read_run(in, my_g + o * g_stride + oh * run, run);
                   const float* const w = my_weight + o * pitch + kh * K;
#pragma unroll
                   for (int j = 0; j < Channels; ++j)
#pragma unroll
                     for (int kw = 0; kw < K; ++kw) {
                       const float factor = w[j * K * K + kw];
#pragma unroll
                       for (int i = 0; i < run; ++i) sum[j][i + kw] = fmaf(in[i], factor, sum[j][i + kw]);
                     }
                 }
               }
             });

  const bool whole =
      p.x.pad_w == 0 && p.x.W == wide && wide % 4 == 0 && reinterpret_cast<std::uintptr_t>(grad_x) % 16 == 0;
  const auto finish = [&](int n, int c, int row, const float* sums) {
    if (c >= p.C || n >= p.N) return;
    float* const to = grad_x + ((static_cast<std::int64_t>(n) * p.C + c) * p.x.H + row) * p.x.W - p.x.pad_w;
    if (whole) {
#pragma unroll
      for (int i = 0; i + 4 <= wide; i += 4)
        *reinterpret_cast<float4*>(to + i) = float4{sums[i], sums[i + 1], sums[i + 2], sums[i + 3]};
    } else {
#pragma unroll
      for (int i = 0; i < wide; ++i)
        if (i >= p.x.pad_w && i < p.x.pad_w + p.x.W) to[i] = sums[i];
    }
  };
  if (cut.splits == 1) {
    if (!works) return;
#pragma unroll
    for (int j = 0; j < Channels; ++j) finish(image_first + image, c_first + group * Channels + j, h, sum[j]);
    return;
  }
  float* const part = staged;
  if (works) {
    const int place = ((split * p.x.H + h) * cut.images + image) * cut.groups + group;
#pragma unroll
    for (int j = 0; j < Channels; ++j)
#pragma unroll
      for (int i = 0; i < wide; ++i) part[(j * wide + i) * cut.threads + place] = sum[j][i];
  }
  __syncthreads();
  add_splits<wide>(part, Channels, cut.threads, cut.splits, [&](int line, int place, const float* sums) {
    int rest = place;
    const int c = c_first + rest % cut.groups * Channels + line;
    rest /= cut.groups;
    finish(image_first + rest % cut.images, c, rest / cut.images, sums);
  });
}

/// The number of kh that the warps of a block process for their rows of x, 32 lanes each. Rows at the edge have fewer.
double executed_rows(const Planes& p, int window, int lanes_per_row, int threads) {
  double rows = 0;
  for (int thread = 0; thread < threads; thread += 32) {
    const int first = thread / lanes_per_row, last = std::min(thread + 31, threads - 1) / lanes_per_row;
    const int least = std::max(0, first + p.x.pad_h - p.OH + 1), most = std::min(window - 1, last + p.x.pad_h);
    rows += 32.0 * (most - least + 1);
  }
  return rows;
}

Cut grad_x_cut(const Problem& s, const Planes& p, int per_thread) {
  const auto window = static_cast<int>(s.KH * s.KW);
  Work work{};
  work.images = p.N, work.channels = p.O, work.groups = static_cast<int>(ceil_div(p.C, per_thread));
  work.lanes = p.x.H, work.values = per_thread * (run + static_cast<int>(s.KW) - 1);
  work.executed = [&, of_row = static_cast<double>(s.KW * per_thread * run)](const Cut& cut) {
    const int lanes_per_row = cut.images * cut.groups * cut.splits;
    return executed_rows(p, static_cast<int>(s.KH), lanes_per_row, cut.threads) * of_row / cut.splits;
  };
  work.image_bytes = sizeof(float) * static_cast<std::size_t>(p.y.stride);
  work.weight_bytes = sizeof(float) * static_cast<std::size_t>(window * per_thread);
  work.channel_padding = sizeof(float) * 4;
  work.efficiency = 1.17, work.copied = 6.6, work.registers = per_thread == 5 && s.KH == 5 ? 104 : 80;
  return find_cut(work);
}

Cut chosen_cut(const Problem& shape) {
  struct Rule;
  return remembered<Rule>(shape, [&] { return grad_x_cut(shape, planes(shape), channels_per_thread(shape.C)); });
}

bool fits(const Problem& problem) {
  return small_window(problem) && problem.OW <= run && problem.H <= 32 && chosen_cut(problem).threads > 0;
}

void run_direct(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  const Planes p = planes(problem);
  const int per_thread = channels_per_thread(problem.C);
  const Cut cut = chosen_cut(problem);
  with_sizes(problem.KH, per_thread, [&](auto window, auto channels) {
    constexpr auto kernel = grad_x_kernel<window.value, channels.value>;
    const dim3 blocks(static_cast<unsigned>(ceil_div(p.N, cut.images)),
                      static_cast<unsigned>(ceil_div(p.C, cut.groups * per_thread)));
    launch(context, Grid(blocks, whole_warps(cut.threads), cut.shared), kernel, static_cast<float*>(arrays.x),
           static_cast<const float*>(arrays.y), static_cast<const float*>(arrays.weight), p, cut,
           Divisor<std::uint32_t>(pitch_of_lines(cut.groups * per_thread * window.value * window.value)));
  });
}

}  // namespace

const Algorithm direct_grad_x{"direct", fits, nullptr, run_direct};

}  // namespace tern::cuda::convolution
