#include "cuda/convolution/direct_tensor.cuh"

namespace tern::cuda::convolution {
namespace {

// For outputs of at most one run a row: every multiply-add is one of the sum, none meets the padding across.
template <int K, int Channels, int Each>
__global__ void __launch_bounds__(most_threads)
    grad_x_kernel(float* grad_x, const float* __restrict__ g, const float* __restrict__ weight,
                  const __grid_constant__ Planes p, const __grid_constant__ Cut cut,
                  Divisor<std::uint32_t> weight_run) {
  extern __shared__ float4 memory[];
  begin_kernel();
  constexpr int wide = run + K - 1;
  const int c_block = cut.groups * Channels, c_pitch = c_block | 1;
  const int plane = p.OH * run;                   // rows of g, filled up with zeros
  const int image_pitch = cut.chunk * plane + 4;  // images start on different banks
  float* staged_g = reinterpret_cast<float*>(memory);
  float* staged_weight = staged_g + cut.images * image_pitch;
  const int c_first = static_cast<int>(blockIdx.y) * c_block, image_first = static_cast<int>(blockIdx.x) * cut.images;
  const int c_count = min(c_block, p.C - c_first);

  // Rows have different numbers of terms, so a warp's lanes share a row where there are lanes enough.
  int t = static_cast<int>(threadIdx.x);
  const bool works = t < cut.threads;
  const int group = t % cut.groups;
  t /= cut.groups;
  const int image = t % (cut.images / Each) * Each;
  t /= cut.images / Each;
  const int h = t % p.H, split = t / p.H;

  float sum[Each][Channels][wide] = {};
  for (int o0 = 0; o0 < p.O; o0 += cut.chunk) {
    const int channels = min(cut.chunk, p.O - o0);
    if (o0 > 0) __syncthreads();
    for (int i = 0; i < cut.images && image_first + i < p.N; ++i) {
      const float* from = g + (static_cast<std::int64_t>(image_first + i) * p.O + o0) * p.OH * p.OW;
      float* to = staged_g + i * image_pitch;
      if (p.OW == run && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
#pragma unroll 4
        for (int e = static_cast<int>(threadIdx.x) * 4; e < channels * plane; e += static_cast<int>(blockDim.x) * 4)
          *reinterpret_cast<float4*>(to + e) = *reinterpret_cast<const float4*>(from + e);
        continue;
      }
#pragma unroll 4
      for (int e = static_cast<int>(threadIdx.x); e < channels * plane; e += static_cast<int>(blockDim.x)) {
        const int line = e / run, column = e % run;
        to[e] = column < p.OW ? from[line * p.OW + column] : 0.0f;
      }
    }
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x); i < channels * c_block * K * K; i += static_cast<int>(blockDim.x)) {
      int o, at;
      weight_run.split(i, o, at);
      const int c = at / (K * K), place = at % (K * K);
      if (c < c_count)
        staged_weight[(o * K * K + place) * c_pitch + c] =
            weight[(static_cast<std::int64_t>(o0 + o) * p.C + c_first) * (K * K) + at];
    }
    __syncthreads();
    if (!works) continue;
    const float* my_g = staged_g + image * image_pitch;
    const float* my_weight = staged_weight + group * Channels;
    for (int o = split; o < channels; o += cut.splits) {
#pragma unroll 1
      for (int kh = 0; kh < K; ++kh) {
        const int oh = h + p.pad_h - kh;
        if (oh < 0 || oh >= p.OH) continue;
        float in[Each][run];
#pragma unroll
        for (int e = 0; e < Each; ++e) read_run(in[e], my_g + e * image_pitch + o * plane + oh * run, run);
        const float* w = my_weight + (o * K + kh) * K * c_pitch;
#pragma unroll
        for (int kw = 0; kw < K; ++kw)
#pragma unroll
          for (int j = 0; j < Channels; ++j) {
            const float factor = w[kw * c_pitch + j];
#pragma unroll
            for (int e = 0; e < Each; ++e)
#pragma unroll
              for (int i = 0; i < run; ++i) sum[e][j][i + kw] = fmaf(in[e][i], factor, sum[e][j][i + kw]);
          }
      }
    }
  }

  const auto finish = [&](int value, int thread, float total) {
    int rest = thread;
    const int c = c_first + rest % cut.groups * Channels + value / wide % Channels;
    rest /= cut.groups;
    const int pairs = cut.images / Each;
    const int n = image_first + rest % pairs * Each + value / (wide * Channels), row = rest / pairs;
    const int column = value % wide - p.pad_w;
    if (column < 0 || column >= p.W || c >= p.C || n >= p.N) return;
    grad_x[((static_cast<std::int64_t>(n) * p.C + c) * p.H + row) * p.W + column] = total;
  };
  if (cut.splits == 1) {
    if (!works) return;
#pragma unroll
    for (int e = 0; e < Each; ++e)
#pragma unroll
      for (int j = 0; j < Channels; ++j)
#pragma unroll
        for (int i = 0; i < wide; ++i)
          finish((e * Channels + j) * wide + i, static_cast<int>(threadIdx.x), sum[e][j][i]);
    return;
  }
  __syncthreads();
  float* part = reinterpret_cast<float*>(memory);
  if (works)
#pragma unroll
    for (int e = 0; e < Each; ++e)
#pragma unroll
      for (int j = 0; j < Channels; ++j)
#pragma unroll
        for (int i = 0; i < wide; ++i)
          part[((e * Channels + j) * wide + i) * cut.threads + static_cast<int>(threadIdx.x)] = sum[e][j][i];
  __syncthreads();
  add_splits(part, Each * Channels * wide, cut.threads, cut.splits, finish);
}

Cut grad_x_cut(const Problem& s, const Planes& p, int per_thread) {
  const auto window = static_cast<int>(s.KH * s.KW);
  Work work{};
  work.images = p.N, work.channels = p.O, work.groups = static_cast<int>(ceil_div(p.C, per_thread));
  work.lanes = p.H, work.values = per_thread * (run + static_cast<int>(s.KW) - 1);
  work.most_each = s.KH == 5 && p.N > 1 ? 2 : 1;
  work.alone = static_cast<double>(window * per_thread * run);
  work.terms = work.alone * p.OH;
  work.image_bytes = sizeof(float) * static_cast<std::size_t>(p.OH * run);
  work.weight_bytes = sizeof(float) * static_cast<std::size_t>(window * per_thread);
  work.pitch_bytes = sizeof(float) * static_cast<std::size_t>(window);
  work.efficiency[0] = 0.51, work.efficiency[1] = 0.61, work.registers = 168;
  return find_cut(work);
}

Cut chosen_cut(const Problem& shape) {
  struct Rule;
  return remembered<Rule>(shape, [&] { return grad_x_cut(shape, planes(shape), channels_per_thread(shape.C)); });
}

bool fits(const Problem& problem) {
  if (fits_tensor_grad_x(problem)) return true;
  return small_window(problem) && problem.OW <= run && problem.H <= 32 && chosen_cut(problem).threads > 0;
}

void run_direct(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  if (fits_tensor_grad_x(problem)) return run_tensor_grad_x(context, problem, arrays);
  const Planes p = planes(problem);
  const int per_thread = channels_per_thread(problem.C);
  const Cut cut = chosen_cut(problem);
  with_sizes(problem.KH, per_thread, [&](auto window, auto channels) {
    // Only the larger window shares weights between two images: the smaller one has few.
    constexpr int most_each = window.value == 5 ? 2 : 1;
    constexpr auto one = grad_x_kernel<window.value, channels.value, 1>;
    constexpr auto two = grad_x_kernel<window.value, channels.value, most_each>;
    const auto kernel = cut.each == 1 ? one : two;
    const dim3 blocks(static_cast<unsigned>(ceil_div(p.N, cut.images)),
                      static_cast<unsigned>(ceil_div(p.C, cut.groups * per_thread)));
    launch(context, Grid(blocks, whole_warps(cut.threads), cut.shared), kernel, static_cast<float*>(arrays.x),
           static_cast<const float*>(arrays.y), static_cast<const float*>(arrays.weight), p, cut,
           Divisor<std::uint32_t>(cut.groups * per_thread * problem.KH * problem.KW));
  });
}

}  // namespace

const Way direct_grad_x{"direct", fits, nullptr, run_direct};

}  // namespace tern::cuda::convolution
