#include <algorithm>
#include <array>
#include <limits>

#include "cuda/convolutions.cuh"
#include "cuda/fused.cuh"
#include "cuda/memo.cuh"

namespace tern::cuda {
namespace {

// For square 3x3 and 5x5 windows of stride 1 over small planes: a block keeps whole planes in shared memory, a thread
// holds a run of 8 positions for a few channels in registers. `splits` groups of threads share the sum over the
// channels that are summed away; their parts are added in order.
constexpr int run = 8;
constexpr int most_threads = 384;  // leaves a thread the registers for its sums
constexpr std::size_t most_shared = 100 * 1024;  // two blocks on a multiprocessor

int channels_per_thread(std::int64_t channels) { return channels % 5 == 0 ? 5 : 4; }

/// How a launch is cut. Thread order, fastest first: lanes (seg, row) or (group, image) as the kernel says.
struct Cut {
  int images = 1;    ///< per block
  int groups = 1;    ///< of channels per block
  int splits = 1;    ///< of the sum, within a block
  int chunk = 1;     ///< channels of the sum that are in shared memory at a time
  int threads = 32;  ///< in use, before rounding up to warps
  std::size_t shared = 0;
};

struct Planes {
  int N, C, H, W, O, OH, OW, pad_h, pad_w;
  int segments, pitch, rows;  // runs in a row; floats in a stored row; stored rows of a plane
  bool flat;                  // stored planes equal those in memory
  Divider plane, row;         // rows * pitch and pitch
};

Planes planes(const Conv2d& s) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  Planes p{};
  p.N = i(s.N), p.C = i(s.C), p.H = i(s.H), p.W = i(s.W), p.O = i(s.O), p.OH = i(s.OH), p.OW = i(s.OW);
  p.pad_h = i(s.pad_h), p.pad_w = i(s.pad_w);
  p.segments = i(ceil_div(s.OW, run));
  p.pitch = i(ceil_div(p.segments * run + s.KW - 1, 4) * 4);
  p.rows = i(s.OH + s.KH - 1);
  p.flat = p.pitch == p.W && p.rows == p.H && p.pad_h == 0 && p.pad_w == 0;
  p.plane = Divider(p.rows * p.pitch);
  p.row = Divider(p.pitch);
  return p;
}

bool small_window(const Conv2d& s) {
  return s.groups == 1 && s.stride_h == 1 && s.stride_w == 1 && s.dilation_h == 1 && s.dilation_w == 1 &&
         s.KH == s.KW && (s.KH == 3 || s.KH == 5) && s.pad_h < s.KH && s.pad_w < s.KW && s.OH <= 32 && s.OW <= 32 &&
         s.C <= 4096 && s.O <= 4096 && s.N < (1 << 20);
}

/// Copies `channels` planes of one image into padded planes in shared memory; all threads of the block take part.
__device__ __forceinline__ void stage_planes(float* to, const float* from, int channels, const Planes& p) {
  const int count = channels * p.rows * p.pitch;
  if (p.flat && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) * 4; i < count; i += static_cast<int>(blockDim.x) * 4)
      *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(from + i);
    return;
  }
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    int channel, rest, row, column;
    p.plane.split(i, channel, rest);
    p.row.split(rest, row, column);
    const int h = row - p.pad_h, w = column - p.pad_w;
    to[i] = h >= 0 && h < p.H && w >= 0 && w < p.W ? from[(channel * p.H + h) * p.W + w] : 0.0f;
  }
}

__device__ __forceinline__ void read_run(float* to, const float* from, int count) {
#pragma unroll
  for (int i = 0; i < count; i += 4) *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(from + i);
}

/// Adds the parts of the splits in order: every thread has put `values` partial sums at part[value * threads + thread],
/// thread counting through the splits; use(value, thread of the first split, sum) gets the totals.
template <class Use>
__device__ __forceinline__ void add_splits(const float* part, int values, int threads, int splits, const Use& use) {
  const int per_split = threads / splits;
  for (int e = static_cast<int>(threadIdx.x); e < values * per_split; e += static_cast<int>(blockDim.x)) {
    const int value = e / per_split, thread = e % per_split;
    float total = 0;
    for (int s = 0; s < splits; ++s) total += part[value * threads + s * per_split + thread];
    use(value, thread, total);
  }
}

// ---- forward ----

template <int K, int Channels>
__global__ void __launch_bounds__(most_threads)
    forward_kernel(float* y, const float* x, const float* weight, const float* bias, const __grid_constant__ Planes p,
                   const __grid_constant__ Cut cut, Divider weight_run, Activation activation) {
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
#pragma unroll 4
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
    if (!works || image_first + image >= p.N) return;
    const bool whole = p.OW % run == 0 && reinterpret_cast<std::uintptr_t>(y) % 16 == 0;
#pragma unroll
    for (int j = 0; j < Channels; ++j) {
      const int o = o_first + group * Channels + j;
      if (o >= p.O) break;
      const float shift = bias == nullptr ? 0.0f : bias[o];
      float* to = y + ((static_cast<std::int64_t>(image_first + image) * p.O + o) * p.OH + row) * p.OW + segment * run;
#pragma unroll
      for (int i = 0; i < run; ++i) sum[j][i] = activate(sum[j][i] + shift, activation);
      if (whole) {
        *reinterpret_cast<float4*>(to) = float4{sum[j][0], sum[j][1], sum[j][2], sum[j][3]};
        *reinterpret_cast<float4*>(to + 4) = float4{sum[j][4], sum[j][5], sum[j][6], sum[j][7]};
      } else {
#pragma unroll
        for (int i = 0; i < run; ++i)
          if (segment * run + i < p.OW) to[i] = sum[j][i];
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

// ---- the gradient of x, for outputs of at most one run a row ----

template <int K, int Channels>
__global__ void __launch_bounds__(most_threads)
    grad_x_kernel(float* grad_x, const float* g, const float* weight, const __grid_constant__ Planes p,
                  const __grid_constant__ Cut cut, Divider weight_run) {
  extern __shared__ float4 memory[];
  begin_kernel();
  constexpr int wide = run + K - 1;
  const int c_block = cut.groups * Channels, c_pitch = c_block | 1;
  const int plane = p.OH * run;  // rows of g, filled up with zeros
  float* staged_g = reinterpret_cast<float*>(memory);
  float* staged_weight = staged_g + cut.images * cut.chunk * plane;
  const int c_first = static_cast<int>(blockIdx.y) * c_block, image_first = static_cast<int>(blockIdx.x) * cut.images;
  const int c_count = min(c_block, p.C - c_first);

  // Rows have different numbers of terms, so a warp's lanes share a row where there are lanes enough.
  int t = static_cast<int>(threadIdx.x);
  const bool works = t < cut.threads;
  const int group = t % cut.groups;
  t /= cut.groups;
  const int image = t % cut.images;
  t /= cut.images;
  const int h = t % p.H, split = t / p.H;

  float sum[Channels][wide] = {};
  for (int o0 = 0; o0 < p.O; o0 += cut.chunk) {
    const int channels = min(cut.chunk, p.O - o0);
    if (o0 > 0) __syncthreads();
    for (int i = 0; i < cut.images && image_first + i < p.N; ++i) {
      const float* from = g + (static_cast<std::int64_t>(image_first + i) * p.O + o0) * p.OH * p.OW;
      float* to = staged_g + i * cut.chunk * plane;
#pragma unroll 4
      for (int e = static_cast<int>(threadIdx.x); e < channels * plane; e += static_cast<int>(blockDim.x)) {
        const int line = e / run, column = e % run;
        to[e] = column < p.OW ? from[line * p.OW + column] : 0.0f;
      }
    }
#pragma unroll 4
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
    const float* my_g = staged_g + image * cut.chunk * plane;
    const float* my_weight = staged_weight + group * Channels;
    for (int o = split; o < channels; o += cut.splits) {
#pragma unroll 1
      for (int kh = 0; kh < K; ++kh) {
        const int oh = h + p.pad_h - kh;
        if (oh < 0 || oh >= p.OH) continue;
        float in[run];
        read_run(in, my_g + o * plane + oh * run, run);
        const float* w = my_weight + (o * K + kh) * K * c_pitch;
#pragma unroll
        for (int kw = 0; kw < K; ++kw)
#pragma unroll
          for (int j = 0; j < Channels; ++j) {
            const float factor = w[kw * c_pitch + j];
#pragma unroll
            for (int i = 0; i < run; ++i) sum[j][i + kw] = fmaf(in[i], factor, sum[j][i + kw]);
          }
      }
    }
  }

  const auto finish = [&](int value, int thread, float total) {
    int rest = thread;
    const int c = c_first + rest % cut.groups * Channels + value / wide;
    rest /= cut.groups;
    const int n = image_first + rest % cut.images, row = rest / cut.images;
    const int column = value % wide - p.pad_w;
    if (column < 0 || column >= p.W || c >= p.C || n >= p.N) return;
    grad_x[((static_cast<std::int64_t>(n) * p.C + c) * p.H + row) * p.W + column] = total;
  };
  if (cut.splits == 1) {
    if (!works) return;
#pragma unroll
    for (int j = 0; j < Channels; ++j)
#pragma unroll
      for (int i = 0; i < wide; ++i) finish(j * wide + i, static_cast<int>(threadIdx.x), sum[j][i]);
    return;
  }
  __syncthreads();
  float* part = reinterpret_cast<float*>(memory);
  if (works)
#pragma unroll
    for (int j = 0; j < Channels; ++j)
#pragma unroll
      for (int i = 0; i < wide; ++i) part[(j * wide + i) * cut.threads + static_cast<int>(threadIdx.x)] = sum[j][i];
  __syncthreads();
  add_splits(part, Channels * wide, cut.threads, cut.splits, finish);
}

// ---- the gradient of the weight ----

/// A thread sums the K weights of one (c, kh) for its output channels over the rows r, r + splits, ... of a slice of the
/// images. Thread order: (c, kh), group, split. The block after the last group part sums the bias.
template <int K, int Channels>
__global__ void __launch_bounds__(most_threads)
    grad_weight_kernel(float* partials, const float* g, const float* x, const __grid_constant__ Planes p,
                       const __grid_constant__ Cut cut, int images_per_slice, int group_parts) {
  extern __shared__ float4 memory[];
  begin_kernel();
  const int slice = static_cast<int>(blockIdx.x), part = static_cast<int>(blockIdx.y);
  const int c_first = static_cast<int>(blockIdx.z) * cut.chunk;
  const int image_begin = slice * images_per_slice, image_end = min(image_begin + images_per_slice, p.N);
  const std::int64_t weights = static_cast<std::int64_t>(p.O) * p.C * K * K;
  float* to = partials + slice * (weights + p.O);
  if (part == group_parts) {
    if (blockIdx.z != 0) return;
    const int lane = static_cast<int>(threadIdx.x) % 32, area = p.OH * p.OW;
    for (int o = static_cast<int>(threadIdx.x) / 32; o < p.O; o += static_cast<int>(blockDim.x) / 32) {
      float sum = 0;
      for (int n = image_begin; n < image_end; ++n)
        for (int i = lane; i < area; i += 32) sum += g[(static_cast<std::int64_t>(n) * p.O + o) * area + i];
      for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
      if (lane == 0) to[weights + o] = sum;
    }
    return;
  }
  const int o_block = cut.groups * Channels, o_first = part * o_block, o_count = min(o_block, p.O - o_first);
  const int channels = min(cut.chunk, p.C - c_first);
  const int plane = p.rows * p.pitch, g_row = p.segments * run, g_plane = p.OH * g_row;
  float* staged_x = reinterpret_cast<float*>(memory);
  float* staged_g = staged_x + cut.chunk * plane;

  int t = static_cast<int>(threadIdx.x);
  const int kh = t % K;
  t /= K;
  const int c = t % cut.chunk;
  t /= cut.chunk;
  const int group = t % cut.groups, split = t / cut.groups;
  const bool works = static_cast<int>(threadIdx.x) < cut.threads && c < channels;

  float sum[Channels][K] = {};
  for (int n = image_begin; n < image_end; ++n) {
    if (n > image_begin) __syncthreads();
    stage_planes(staged_x, x + (static_cast<std::int64_t>(n) * p.C + c_first) * p.H * p.W, channels, p);
    const float* from = g + (static_cast<std::int64_t>(n) * p.O + o_first) * p.OH * p.OW;
    if (p.OW == g_row && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
#pragma unroll 4
      for (int e = static_cast<int>(threadIdx.x) * 4; e < o_count * g_plane; e += static_cast<int>(blockDim.x) * 4)
        *reinterpret_cast<float4*>(staged_g + e) = *reinterpret_cast<const float4*>(from + e);
    } else {
      for (int e = static_cast<int>(threadIdx.x); e < o_count * g_plane; e += static_cast<int>(blockDim.x)) {
        const int line = e / g_row, column = e % g_row;
        staged_g[e] = column < p.OW ? from[line * p.OW + column] : 0.0f;
      }
    }
    __syncthreads();
    if (!works) continue;
    const float* my_g = staged_g + group * Channels * g_plane;
    const float* my_x = staged_x + c * plane + kh * p.pitch;
    for (int row = split; row < p.OH; row += cut.splits)
#pragma unroll 1
      for (int segment = 0; segment < p.segments; ++segment) {
        float in[run + 4];
        read_run(in, my_x + row * p.pitch + segment * run, run + 4);
#pragma unroll
        for (int j = 0; j < Channels; ++j) {
          float out[run];
          read_run(out, my_g + j * g_plane + row * g_row + segment * run, run);
#pragma unroll
          for (int kw = 0; kw < K; ++kw)
#pragma unroll
            for (int i = 0; i < run; ++i) sum[j][kw] = fmaf(out[i], in[i + kw], sum[j][kw]);
        }
      }
  }

  const auto finish = [&](int value, int thread, float total) {
    int rest = thread;
    const int row = rest % K;
    rest /= K;
    const int channel = c_first + rest % cut.chunk;
    const int o = o_first + rest / cut.chunk % cut.groups * Channels + value / K;
    if (channel >= p.C || o >= p.O) return;
    to[((static_cast<std::int64_t>(o) * p.C + channel) * K + row) * K + value % K] = total;
  };
  if (cut.splits == 1) {
    if (!works) return;
#pragma unroll
    for (int j = 0; j < Channels; ++j)
#pragma unroll
      for (int kw = 0; kw < K; ++kw) finish(j * K + kw, static_cast<int>(threadIdx.x), sum[j][kw]);
    return;
  }
  __syncthreads();
  float* parts = reinterpret_cast<float*>(memory);
  if (static_cast<int>(threadIdx.x) < cut.threads)
#pragma unroll
    for (int j = 0; j < Channels; ++j)
#pragma unroll
      for (int kw = 0; kw < K; ++kw) parts[(j * K + kw) * cut.threads + static_cast<int>(threadIdx.x)] = sum[j][kw];
  __syncthreads();
  add_splits(parts, Channels * K, cut.threads, cut.splits, finish);
}

// ---- how to cut ----

/// What one pass looks like to the search below.
struct Pass {
  int images, channels, groups;      // images, channels summed away, groups of output channels
  int lanes;                         // threads per (image, group)
  int values;                        // sums per thread
  double terms;                      // multiply-adds per (image, group, channel summed)
  double alone;                      // cycles of one thread per channel summed
  std::size_t image_bytes, weight_bytes;  // shared memory per channel: of an image, of a group
};

std::size_t shared_of(const Pass& pass, const Cut& cut, std::size_t spare) {
  const std::size_t staged = static_cast<std::size_t>(cut.chunk) *
                                 (static_cast<std::size_t>(cut.images) * pass.image_bytes +
                                  static_cast<std::size_t>(cut.groups) * pass.weight_bytes + spare) +
                             64;
  const std::size_t parts = cut.splits == 1 ? 0 : static_cast<std::size_t>(cut.threads * pass.values) * sizeof(float);
  return std::max(staged, parts);
}

// The cheapest cut by a simple account: multiply-adds at the card's rate, shared loads, and one thread's latency.
// Arithmetic on sizes only, so that a shape is always cut, and summed, in the same way.
Cut find_cut(const Pass& pass, std::size_t spare) {
  Cut best;
  double best_cost = std::numeric_limits<double>::max();
  for (int images = 1; images <= 8; images *= 2)
    for (int groups = 1; groups <= pass.groups; ++groups) {
      if (pass.groups % groups != 0 && groups != 4 && groups != 8) continue;
      for (int splits = 1; splits <= std::min(pass.channels, 32); ++splits) {
        Cut cut{images, groups, splits, 0, images * groups * splits * pass.lanes, 0};
        if (cut.threads > most_threads) break;
        cut.chunk = pass.channels;
        while (cut.chunk > 1 && shared_of(pass, cut, spare) > most_shared) cut.chunk = (cut.chunk + 1) / 2;
        cut.shared = shared_of(pass, cut, spare);
        if (cut.shared > most_shared) continue;
        const double blocks = static_cast<double>(ceil_div(pass.images, images) * ceil_div(pass.groups, groups));
        const double deep = std::max(1.0, static_cast<double>(ceil_div(static_cast<std::int64_t>(blocks),
                                                                      card().multiprocessors)));
        const double work = pass.terms * images * groups * pass.channels / 128 / 0.7 * deep;
        const double warps = static_cast<double>(ceil_div(cut.threads, 32));
        const double resident = std::max(1.0, std::min({deep, 2048 / (warps * 32), 220.0 * 1024 / cut.shared,
                                                        65536 / (warps * 32 * 96)}));
        const double rounds = std::max(1.0, deep / resident);
        const double alone = pass.alone * static_cast<double>(ceil_div(pass.channels, splits)) * rounds;
        const double loads = static_cast<double>(pass.channels) *
                             (static_cast<double>(images * pass.image_bytes) +
                              static_cast<double>(groups * pass.weight_bytes)) *
                             deep / 32;
        const double sums = splits == 1 ? 0 : 300 + pass.values * splits * 4;
        const double chunks = static_cast<double>(ceil_div(pass.channels, cut.chunk)) * 900 * rounds;
        const double cost = std::max(work, alone) + loads + chunks + sums;
        if (cost < best_cost) {
          best = cut;
          best_cost = cost;
        }
      }
    }
  return best;
}

unsigned whole_warps(int threads) { return static_cast<unsigned>((threads + 31) / 32 * 32); }

using Sizes = std::array<std::int64_t, 10>;
Sizes sizes_of(const Conv2d& s) { return {s.N, s.C, s.H, s.W, s.O, s.KH, s.OH, s.OW, s.pad_h, s.pad_w}; }

Cut forward_cut(const Conv2d& s, const Planes& p, int per_thread) {
  const int window = static_cast<int>(s.KH * s.KW);
  Pass pass{p.N, p.C, static_cast<int>(ceil_div(p.O, per_thread)), p.OH * p.segments, per_thread * run,
            static_cast<double>(p.OH * p.segments * run * per_thread * window),
            static_cast<double>(s.KH) * (60 + 1.2 * static_cast<double>(s.KW) * per_thread * run),
            sizeof(float) * static_cast<std::size_t>(p.rows * p.pitch),
            sizeof(float) * static_cast<std::size_t>(window * per_thread)};
  return find_cut(pass, sizeof(float) * static_cast<std::size_t>(window));
}

Cut grad_x_cut(const Conv2d& s, const Planes& p, int per_thread) {
  const int window = static_cast<int>(s.KH * s.KW);
  Pass pass{p.N, p.O, static_cast<int>(ceil_div(p.C, per_thread)), p.H, per_thread * (run + static_cast<int>(s.KW) - 1),
            static_cast<double>(p.OH * run * per_thread * window),
            static_cast<double>(s.KH) * (80 + 1.2 * static_cast<double>(s.KW) * per_thread * run),
            sizeof(float) * static_cast<std::size_t>(p.OH * run),
            sizeof(float) * static_cast<std::size_t>(window * per_thread)};
  return find_cut(pass, sizeof(float) * static_cast<std::size_t>(window));
}

struct WeightCut {
  Cut cut;
  int slices = 1, images_per_slice = 1, group_parts = 1, chunks = 1;
};

WeightCut find_weight_cut(const Conv2d& s, const Planes& p, int per_thread) {
  const int groups = static_cast<int>(ceil_div(p.O, per_thread)), window = static_cast<int>(s.KH);
  const std::size_t plane = sizeof(float) * static_cast<std::size_t>(p.rows * p.pitch);
  const std::size_t g_plane = sizeof(float) * static_cast<std::size_t>(p.OH * p.segments * run);
  const double weights = static_cast<double>(s.O * s.C * s.KH * s.KW);
  WeightCut best;
  double best_cost = std::numeric_limits<double>::max();
  for (int in_block = 1; in_block <= groups; ++in_block) {
    if (groups % in_block != 0 && in_block != 4 && in_block != 8) continue;
    for (int chunk = p.C; chunk >= 1; chunk = chunk == 1 ? 0 : (chunk + 1) / 2) {
      if (window * chunk * in_block > most_threads) continue;
      for (int splits = 1; splits <= p.OH; ++splits) {
        if (p.OH % splits != 0) continue;
        Cut cut{1, in_block, splits, chunk, window * chunk * in_block * splits, 0};
        if (cut.threads > most_threads) break;
        const std::size_t parts =
            splits == 1 ? 0 : sizeof(float) * static_cast<std::size_t>(cut.threads * per_thread * window);
        cut.shared = std::max(static_cast<std::size_t>(chunk) * plane +
                                  static_cast<std::size_t>(in_block * per_thread) * g_plane + 64,
                              parts);
        if (cut.shared > most_shared) continue;
        const int chunks = static_cast<int>(ceil_div(p.C, chunk)), group_parts = static_cast<int>(
                                                                       ceil_div(groups, in_block));
        for (int per_slice = 1; per_slice <= p.N; per_slice = per_slice < 8 ? per_slice + 1 : per_slice * 5 / 4) {
          const int slices = static_cast<int>(ceil_div(p.N, per_slice));
          if (slices > 256) continue;
          const double blocks = static_cast<double>(slices) * group_parts * chunks;
          const double deep = static_cast<double>(ceil_div(static_cast<std::int64_t>(blocks), card().multiprocessors));
          const double terms = static_cast<double>(cut.threads) / splits * per_thread * window * p.OH * p.segments *
                               run * per_slice;
          const double warps = static_cast<double>(ceil_div(cut.threads, 32));
          const double resident = std::max(
              1.0, std::min({deep, 2048 / (warps * 32), 220.0 * 1024 / static_cast<double>(cut.shared),
                             65536 / (warps * 32 * 80)}));
          const double rounds = std::max(1.0, deep / resident);
          const double work = terms / 128 / 0.65 * deep;
          const double alone = rounds * per_slice * p.segments * static_cast<double>(ceil_div(p.OH, splits)) *
                               (60 + 1.2 * per_thread * window * run);
          const double loads =
              deep * per_slice * static_cast<double>(static_cast<std::size_t>(chunk) * plane +
                                                     static_cast<std::size_t>(in_block * per_thread) * g_plane) / 32 +
              rounds * per_slice * 1000;
          const double adding = slices * weights * 8 / (card().multiprocessors * 24.0) + slices * 20.0;
          const double cost = std::max(work, alone) + loads + adding + (splits > 1 ? 500 : 0);
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

const WeightCut& grad_weight_cut(const Conv2d& s, const Planes& p, int per_thread) {
  struct Rule;
  return remembered<Rule>(sizes_of(s), [&] { return find_weight_cut(s, p, per_thread); });
}

/// Calls body with the window size and the channels per thread as compile-time constants.
template <class Body>
void with_sizes(std::int64_t window, int per_thread, const Body& body) {
  if (window == 5 && per_thread == 5) return body(std::integral_constant<int, 5>{}, std::integral_constant<int, 5>{});
  if (window == 5) return body(std::integral_constant<int, 5>{}, std::integral_constant<int, 4>{});
  if (per_thread == 5) return body(std::integral_constant<int, 3>{}, std::integral_constant<int, 5>{});
  body(std::integral_constant<int, 3>{}, std::integral_constant<int, 4>{});
}

}  // namespace

bool direct_conv2d_fits(const Conv2d& shape) {
  return small_window(shape) && planes(shape).segments * shape.OH <= 128;
}

void direct_conv2d(const Context& context, float* y, const float* x, const float* weight, const float* bias,
                   const Conv2d& shape) {
  const Planes p = planes(shape);
  const int per_thread = channels_per_thread(shape.O);
  struct Rule;
  const Cut cut = remembered<Rule>(sizes_of(shape), [&] { return forward_cut(shape, p, per_thread); });
  with_sizes(shape.KH, per_thread, [&](auto window, auto channels) {
    constexpr auto kernel = forward_kernel<window.value, channels.value>;
    if (cut.shared > 48 * 1024) allow_shared(reinterpret_cast<const void*>(kernel), cut.shared);
    const dim3 blocks(static_cast<unsigned>(ceil_div(p.N, cut.images)),
                      static_cast<unsigned>(ceil_div(p.O, cut.groups * per_thread)));
    launch(context, Grid(blocks, whole_warps(cut.threads), cut.shared), kernel, y, x, weight, bias, p, cut,
           Divider(cut.chunk * shape.KH * shape.KW), shape.activation);
  });
}

bool direct_grad_x_fits(const Conv2d& shape) { return small_window(shape) && shape.OW <= run && shape.H <= 32; }

void direct_grad_x(const Context& context, cudaStream_t stream, float* grad_x, const float* g, const float* weight,
                   const Conv2d& shape) {
  Context on = context;
  on.stream = stream;
  const Planes p = planes(shape);
  const int per_thread = channels_per_thread(shape.C);
  struct Rule;
  const Cut cut = remembered<Rule>(sizes_of(shape), [&] { return grad_x_cut(shape, p, per_thread); });
  with_sizes(shape.KH, per_thread, [&](auto window, auto channels) {
    constexpr auto kernel = grad_x_kernel<window.value, channels.value>;
    if (cut.shared > 48 * 1024) allow_shared(reinterpret_cast<const void*>(kernel), cut.shared);
    const dim3 blocks(static_cast<unsigned>(ceil_div(p.N, cut.images)),
                      static_cast<unsigned>(ceil_div(p.C, cut.groups * per_thread)));
    launch(on, Grid(blocks, whole_warps(cut.threads), cut.shared), kernel, grad_x, g, weight, p, cut,
           Divider(cut.groups * per_thread * shape.KH * shape.KW));
  });
}

bool direct_grad_weight_fits(const Conv2d& shape) { return small_window(shape); }

std::int64_t direct_slices(const Conv2d& shape) {
  return grad_weight_cut(shape, planes(shape), channels_per_thread(shape.O)).slices;
}

void direct_grad_weight(const Context& context, float* partials, const float* g, const float* x, std::int64_t,
                        const Conv2d& shape) {
  const Planes p = planes(shape);
  const int per_thread = channels_per_thread(shape.O);
  const WeightCut& way = grad_weight_cut(shape, p, per_thread);
  with_sizes(shape.KH, per_thread, [&](auto window, auto channels) {
    constexpr auto kernel = grad_weight_kernel<window.value, channels.value>;
    if (way.cut.shared > 48 * 1024) allow_shared(reinterpret_cast<const void*>(kernel), way.cut.shared);
    const dim3 blocks(static_cast<unsigned>(way.slices), static_cast<unsigned>(way.group_parts + 1),
                      static_cast<unsigned>(way.chunks));
    launch(context, Grid(blocks, whole_warps(way.cut.threads), way.cut.shared), kernel, partials, g, x, p, way.cut,
           way.images_per_slice, way.group_parts);
  });
}

}  // namespace tern::cuda
