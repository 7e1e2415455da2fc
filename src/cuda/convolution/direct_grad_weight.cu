#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/convolution/direct.cuh"
#include "cuda/fused_rows.cuh"

namespace tern::cuda::convolution {
namespace {

/// A thread sums the K weights of one (c, kh) for its output channels over the rows r, r + splits, ... of a slice of
/// the images. Thread order: (c, kh), group, split. The block after the last group part sums the bias.
template <int K, int Channels>
__global__ void __launch_bounds__(most_threads)
    grad_weight_kernel(float* partials, const float* g, const float* x, const __grid_constant__ Planes p,
                       const __grid_constant__ Cut cut, int images_per_slice, int group_parts,
                       Divisor<std::uint32_t> of_area) {
  extern __shared__ float4 memory[];
  const int slice = static_cast<int>(blockIdx.x), part = static_cast<int>(blockIdx.y);
  const int c_first = static_cast<int>(blockIdx.z) * cut.chunk;
  const int image_begin = slice * images_per_slice, image_end = min(image_begin + images_per_slice, p.N);
  const std::int64_t weights = static_cast<std::int64_t>(p.O) * p.C * K * K;
  float* to = partials + slice * (weights + p.O);
  if (part == group_parts) {
    begin_kernel();
    if (blockIdx.z != 0) return;
    const int area = p.OH * p.OW;
    for (int o = static_cast<int>(threadIdx.x) / 32; o < p.O; o += static_cast<int>(blockDim.x) / 32) {
      const float sum = sum_channel(g + (static_cast<std::int64_t>(image_begin) * p.O + o) * area,
                                    image_end - image_begin, p.O * area, of_area);
      if (threadIdx.x % 32 == 0) to[weights + o] = sum;
    }
    return;
  }
  const int o_block = cut.groups * Channels, o_first = part * o_block, o_count = min(o_block, p.O - o_first);
  const int channels = min(cut.chunk, p.C - c_first);
  const int plane = p.x.stride, g_plane = p.y.stride;
  const int stage_x = cut.chunk * plane, stage_size = stage_x + o_block * g_plane;
  float* const staged = reinterpret_cast<float*>(memory);

  int t = static_cast<int>(threadIdx.x);
  const int kh = t % K;
  t /= K;
  const int c = t % cut.chunk;
  t /= cut.chunk;
  const int group = t % cut.groups, split = t / cut.groups;
  const bool works = static_cast<int>(threadIdx.x) < cut.threads && c < channels;

  begin_kernel();
  float sum[Channels][K] = {};
  each_chunk(
      image_end - image_begin,
      [&](int image, int stage) {
        const std::int64_t n = image_begin + image;
        float* const to = staged + stage * stage_size;
        copy_planes(to, x + (n * p.C + c_first) * (p.x.H * p.x.W), channels, p.x);
        copy_planes(to + stage_x, g + (n * p.O + o_first) * (p.OH * p.OW), o_count, p.y);
      },
      [&](int, int stage) {
        if (!works) return;
        const float* const my_x = staged + stage * stage_size + c * plane + kh * p.x.pitch;
        const float* const my_g = staged + stage * stage_size + stage_x + group * Channels * g_plane;
        for (int row = split; row < p.OH; row += cut.splits)
#pragma unroll 1
          for (int segment = 0; segment < p.segments; ++segment) {
            float in[run + 4];
            read_run(in, my_x + row * p.x.pitch + segment * run, run + 4);
#pragma unroll
            for (int j = 0; j < Channels; ++j) {
              float out[run];
              read_run(out, my_g + j * g_plane + row * p.y.pitch + segment * run, run);
#pragma unroll
              for (int kw = 0; kw < K; ++kw)
#pragma unroll
                for (int i = 0; i < run; ++i) sum[j][kw] = fmaf(out[i], in[i + kw], sum[j][kw]);
            }
          }
      });

  float* const parts = staged;
  if (static_cast<int>(threadIdx.x) < cut.threads)
#pragma unroll
    for (int j = 0; j < Channels; ++j)
#pragma unroll
      for (int kw = 0; kw < K; ++kw) parts[(j * K + kw) * cut.threads + static_cast<int>(threadIdx.x)] = sum[j][kw];
  __syncthreads();
  add_splits<K>(parts, Channels, cut.threads, cut.splits, [&](int line, int thread, const float* sums) {
    int rest = thread;
    const int row = rest % K;
    rest /= K;
    const int channel = c_first + rest % cut.chunk;
    const int o = o_first + rest / cut.chunk % cut.groups * Channels + line;
    if (channel >= p.C || o >= p.O) return;
#pragma unroll
    for (int kw = 0; kw < K; ++kw) to[((static_cast<std::int64_t>(o) * p.C + channel) * K + row) * K + kw] = sums[kw];
  });
}

struct WeightCut {
  Cut cut;
  int slices = 1, images_per_slice = 1, group_parts = 1, chunks = 1;
};

WeightCut find_weight_cut(const Problem& s, const Planes& p, int per_thread) {
  const int groups = static_cast<int>(ceil_div(p.O, per_thread)), window = static_cast<int>(s.KH);
  const std::size_t plane = sizeof(float) * static_cast<std::size_t>(p.x.stride);
  const std::size_t g_plane = sizeof(float) * static_cast<std::size_t>(p.y.stride);
  const double weights = static_cast<double>(s.O * s.C * s.KH * s.KW);
  // Shorter chunks leave a thread too little work per staged image.
  const int least_chunk = std::min(8, (p.C + 3) / 4);
  WeightCut best;
  double best_cost = std::numeric_limits<double>::max();
  for (int in_block = 1; in_block <= groups; ++in_block) {
    if (groups % in_block != 0) continue;
    for (int chunk = p.C; chunk >= least_chunk; chunk = chunk == 1 ? 0 : (chunk + 1) / 2) {
      if (window * chunk * in_block > most_threads) continue;
      for (int splits = 1; splits <= p.OH; ++splits) {
        if (p.OH % splits != 0) continue;
        Cut cut;
        cut.groups = in_block, cut.splits = splits, cut.chunk = chunk;
        cut.threads = window * chunk * in_block * splits;
        if (cut.threads > most_threads) break;
        if (cut.threads < 120 && splits < p.OH) continue;  // too few to hide the staging
        const std::size_t parts = sizeof(float) * static_cast<std::size_t>(cut.threads * per_thread * window);
        const std::size_t stage =
            static_cast<std::size_t>(chunk) * plane + static_cast<std::size_t>(in_block * per_thread) * g_plane;
        const int chunks = static_cast<int>(ceil_div(p.C, chunk)),
                  group_parts = static_cast<int>(ceil_div(groups, in_block));
        for (int per_slice = 1; per_slice <= p.N; per_slice = per_slice < 8 ? per_slice + 1 : per_slice * 5 / 4) {
          const int slices = static_cast<int>(ceil_div(p.N, per_slice));
          if (slices > 256) continue;
          cut.shared = std::max(static_cast<std::size_t>(stages(per_slice)) * stage + 64, parts);
          if (cut.shared > shared_limit()) break;
          // As in direct.cu: work, overhead per image, at least the bias's sum; plus adding the slices.
          const double blocks = static_cast<double>(slices) * (group_parts * chunks);
          const double deep = static_cast<double>(ceil_div(static_cast<std::int64_t>(blocks), card().multiprocessors));
          const double warps = static_cast<double>(ceil_div(cut.threads, 32));
          const double fits = std::min({std::floor(64 / warps), std::floor(65536 / (warps * 32 * 72)),
                                        std::floor(225.0 * 1024 / static_cast<double>(cut.shared + 1024))});
          const double resident = std::max(1.0, std::min(deep, fits)), rounds = std::ceil(deep / resident);
          const double busy = resident * warps / (resident * warps + 14.5);
          const double rows = static_cast<double>(p.segments) * static_cast<double>(per_slice);
          const double terms = warps * 32 / splits * per_thread * window * p.OH * rows * run;
          const double work = terms / 128 / (5.6 * busy) * deep;
          const double around = (per_slice * 585 + 1870) * rounds;
          const double bias = std::ceil(p.O / warps) * (293 + 72 * rows * p.OH * run / 128);
          const double adding = slices * weights * 8 / (card().multiprocessors * 49);
          const double cost = std::max(work + around, bias) + 190 * deep + adding;
          if (cost < best_cost) {
            best = {cut, slices, per_slice, group_parts, chunks};
            best_cost = cost;
          }
        }
      }
    }
  }
  return best;
}

WeightCut chosen_cut(const Problem& problem) {
  struct Rule;
  return remembered<Rule>(problem,
                          [&] { return find_weight_cut(problem, planes(problem), channels_per_thread(problem.O)); });
}

bool fits(const Problem& problem) { return small_window(problem) && chosen_cut(problem).cut.threads > 0; }

std::size_t workspace(const Problem& problem, int) {
  return static_cast<std::size_t>(chosen_cut(problem).slices * (problem.weights() + problem.O)) * sizeof(float);
}

void write_slices(Context& context, const Problem& problem, const Arrays& arrays, float* partials) {
  const Planes p = planes(problem);
  const WeightCut chosen = chosen_cut(problem);
  with_sizes(problem.KH, channels_per_thread(problem.O), [&](auto window, auto channels) {
    constexpr auto kernel = grad_weight_kernel<window.value, channels.value>;
    const dim3 blocks(static_cast<unsigned>(chosen.slices), static_cast<unsigned>(chosen.group_parts + 1),
                      static_cast<unsigned>(chosen.chunks));
    launch(context, Grid(blocks, whole_warps(chosen.cut.threads), chosen.cut.shared), kernel, partials,
           static_cast<const float*>(arrays.y), static_cast<const float*>(arrays.x), p, chosen.cut,
           chosen.images_per_slice, chosen.group_parts, Divisor<std::uint32_t>(p.OH * p.OW));
  });
}

void run_direct(Context& context, const Problem& problem, const Arrays& arrays, int, void* workspace) {
  auto* const partials = static_cast<float*>(workspace);
  write_slices(context, problem, arrays, partials);
  sum_slices(context, static_cast<float*>(arrays.weight), static_cast<float*>(arrays.bias), partials,
             chosen_cut(problem).slices, problem.weights(), problem.O);
}

}  // namespace

const Algorithm direct_grad_weight{"direct", fits, workspace, run_direct};

}  // namespace tern::cuda::convolution
