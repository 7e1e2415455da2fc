#include <algorithm>
#include <array>
#include <cmath>
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

int channels_per_thread(std::int64_t channels) { return channels % 5 == 0 ? 5 : 4; }

/// How a launch is cut. Thread order, fastest first: lanes (seg, row) or (group, image) as the kernel says.
struct Cut {
  int images = 1;    ///< per block, a multiple of `each`
  int each = 1;      ///< images per thread: two share every weight that is read
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

template <int K, int Channels, int Each>
__global__ void __launch_bounds__(most_threads)
    forward_kernel(float* y, const float* __restrict__ x, const float* __restrict__ weight, const float* bias, const __grid_constant__ Planes p,
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
  const int image = t % (cut.images / Each) * Each, split = t / (cut.images / Each);

  float sum[Each][Channels][run] = {};
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
          float in[Each][run + 4];
#pragma unroll
          for (int e = 0; e < Each; ++e)
            read_run(in[e], my_x + (e * cut.chunk + c) * plane + kh * p.pitch, run + 4);
          const float* w = my_weight + (c * K + kh) * K * o_pitch;
#pragma unroll
          for (int kw = 0; kw < K; ++kw)
#pragma unroll
            for (int j = 0; j < Channels; ++j) {
              const float factor = w[kw * o_pitch + j];
#pragma unroll
              for (int e = 0; e < Each; ++e)
#pragma unroll
                for (int i = 0; i < run; ++i) sum[e][j][i] = fmaf(in[e][i + kw], factor, sum[e][j][i]);
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
    const int o = o_first + rest % cut.groups * Channels + value / run % Channels;
    const int n = image_first + rest / cut.groups * Each + value / (run * Channels);
    if (column >= p.OW || o >= p.O || n >= p.N) return;
    if (bias != nullptr) total += bias[o];
    y[((static_cast<std::int64_t>(n) * p.O + o) * p.OH + oh) * p.OW + column] = activate(total, activation);
  };
  if (cut.splits == 1) {
    if (!works) return;
    const bool whole = p.OW % run == 0 && reinterpret_cast<std::uintptr_t>(y) % 16 == 0;
#pragma unroll
    for (int e = 0; e < Each; ++e) {
      const int n = image_first + image + e;
      if (n >= p.N) break;
#pragma unroll
      for (int j = 0; j < Channels; ++j) {
        const int o = o_first + group * Channels + j;
        if (o >= p.O) break;
        const float shift = bias == nullptr ? 0.0f : bias[o];
        float* to = y + ((static_cast<std::int64_t>(n) * p.O + o) * p.OH + row) * p.OW + segment * run;
        float done[run];
#pragma unroll
        for (int i = 0; i < run; ++i) done[i] = activate(sum[e][j][i] + shift, activation);
        if (whole) {
          *reinterpret_cast<float4*>(to) = float4{done[0], done[1], done[2], done[3]};
          *reinterpret_cast<float4*>(to + 4) = float4{done[4], done[5], done[6], done[7]};
        } else {
#pragma unroll
          for (int i = 0; i < run; ++i)
            if (segment * run + i < p.OW) to[i] = done[i];
        }
      }
    }
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
        for (int i = 0; i < run; ++i)
          part[((e * Channels + j) * run + i) * cut.threads + static_cast<int>(threadIdx.x)] = sum[e][j][i];
  __syncthreads();
  add_splits(part, Each * Channels * run, cut.threads, cut.splits, finish);
}

// ---- the gradient of x, for outputs of at most one run a row ----

template <int K, int Channels, int Each>
__global__ void __launch_bounds__(most_threads)
    grad_x_kernel(float* grad_x, const float* __restrict__ g, const float* __restrict__ weight, const __grid_constant__ Planes p,
                  const __grid_constant__ Cut cut, Divider weight_run) {
  extern __shared__ float4 memory[];
  begin_kernel();
  constexpr int wide = run + K - 1;
  const int c_block = cut.groups * Channels, c_pitch = c_block | 1;
  const int plane = p.OH * run;                // rows of g, filled up with zeros
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
  int lanes;                         // threads per (images of a thread, group)
  int values;                        // sums per thread and image
  int most_each;                     // images that a thread can take
  double terms;                      // multiply-adds per (image, group, channel summed)
  double alone;                      // those of one thread per channel summed
  std::size_t image_bytes, weight_bytes, pitch_bytes;  // shared memory per channel: an image's, a group's, padding
};

std::size_t shared_limit() { return std::min<std::size_t>(card().shared_per_block, 200 * 1024); }

std::size_t shared_of(const Pass& pass, const Cut& cut) {
  const std::size_t staged = static_cast<std::size_t>(cut.chunk) *
                                 (static_cast<std::size_t>(cut.images) * pass.image_bytes +
                                  static_cast<std::size_t>(cut.groups) * pass.weight_bytes + pass.pitch_bytes) +
                             static_cast<std::size_t>(cut.images) * 16 + 64;
  const std::size_t parts = cut.splits == 1 ? 0 : static_cast<std::size_t>(cut.threads * pass.values * cut.each) * 4;
  return std::max(staged, parts);
}

// What a cut costs, in cycles: the multiply-adds of the fullest multiprocessor, no less than one thread's own chain of
// them, and what goes around them: staging, waits at each chunk, adding the splits. The constants are fitted to an H200.
double cost(const Pass& pass, const Cut& cut) {
  const double blocks = static_cast<double>(ceil_div(pass.images, cut.images) * ceil_div(pass.groups, cut.groups));
  const double deep = static_cast<double>(ceil_div(static_cast<std::int64_t>(blocks), card().multiprocessors));
  const double warps = static_cast<double>(ceil_div(cut.threads, 32));
  const double resident = std::min({deep, std::floor(64 / warps), std::floor(65536 / (warps * 32 * 168)) + 1,
                                    std::floor(225.0 * 1024 / static_cast<double>(cut.shared + 1024))});
  const double rounds = std::ceil(deep / std::max(1.0, resident));
  const double lanes = warps * 32 / cut.threads;  // idle lanes of the last warp cost as much as busy ones
  const double work = pass.terms * cut.images * cut.groups * pass.channels / 128 / (cut.each == 2 ? 0.75 : 0.6) *
                      deep * lanes;
  const double alone = pass.alone * cut.each * static_cast<double>(ceil_div(pass.channels, cut.splits)) * 1.6 * rounds;
  const double bytes = static_cast<double>(pass.channels) *
                       (static_cast<double>(cut.images) * static_cast<double>(pass.image_bytes) +
                        4 * static_cast<double>(cut.groups) * static_cast<double>(pass.weight_bytes));
  const double staging = bytes / 40 * deep / std::max(1.0, std::min(resident, 2.0));
  const double chunks = static_cast<double>(ceil_div(pass.channels, cut.chunk)) * 1000 * rounds;
  const double adding = cut.splits == 1 ? 0 : 400 + pass.values * cut.each * cut.splits * 2.0;
  return std::max(work, alone) + staging + chunks + adding;
}

// The cheapest cut. Arithmetic on sizes only, so that a shape is always cut, and summed, in the same way.
Cut find_cut(const Pass& pass) {
  Cut best;
  double best_cost = std::numeric_limits<double>::max();
  for (int each = 1; each <= pass.most_each; ++each)
    for (int images = each; images <= 8; images *= 2)
      for (int groups = 1; groups <= pass.groups; ++groups) {
        if (pass.groups % groups != 0 && groups != 4 && groups != 8) continue;
        for (int splits = 1; splits <= std::min(pass.channels, 32); ++splits) {
          Cut cut;
          cut.images = images, cut.each = each, cut.groups = groups, cut.splits = splits;
          cut.threads = images / each * groups * splits * pass.lanes;
          if (cut.threads > most_threads) break;
          for (int chunk = pass.channels;; chunk = (chunk + 1) / 2) {
            cut.chunk = chunk;
            cut.shared = shared_of(pass, cut);
            if (cut.shared <= shared_limit()) {
              const double guess = cost(pass, cut);
              if (guess < best_cost) {
                best = cut;
                best_cost = guess;
              }
            }
            if (chunk <= std::max(splits, 4)) break;
          }
        }
      }
  return best;
}

unsigned whole_warps(int threads) { return static_cast<unsigned>((threads + 31) / 32 * 32); }

using Sizes = std::array<std::int64_t, 10>;
Sizes sizes_of(const Conv2d& s) { return {s.N, s.C, s.H, s.W, s.O, s.KH, s.OH, s.OW, s.pad_h, s.pad_w}; }

Cut forward_cut(const Conv2d& s, const Planes& p, int per_thread) {
  const auto window = static_cast<int>(s.KH * s.KW);
  Pass pass{};
  pass.images = p.N, pass.channels = p.C, pass.groups = static_cast<int>(ceil_div(p.O, per_thread));
  pass.lanes = p.OH * p.segments, pass.values = per_thread * run, pass.most_each = s.KH == 5 && p.N > 1 ? 2 : 1;
  pass.alone = static_cast<double>(window * per_thread * run);
  pass.terms = pass.alone * pass.lanes;
  pass.image_bytes = sizeof(float) * static_cast<std::size_t>(p.rows * p.pitch);
  pass.weight_bytes = sizeof(float) * static_cast<std::size_t>(window * per_thread);
  pass.pitch_bytes = sizeof(float) * static_cast<std::size_t>(window);
  return find_cut(pass);
}

Cut grad_x_cut(const Conv2d& s, const Planes& p, int per_thread) {
  const auto window = static_cast<int>(s.KH * s.KW);
  Pass pass{};
  pass.images = p.N, pass.channels = p.O, pass.groups = static_cast<int>(ceil_div(p.C, per_thread));
  pass.lanes = p.H, pass.values = per_thread * (run + static_cast<int>(s.KW) - 1);
  pass.most_each = s.KH == 5 && p.N > 1 ? 2 : 1;
  pass.alone = static_cast<double>(window * per_thread * run);
  pass.terms = pass.alone * p.OH;
  pass.image_bytes = sizeof(float) * static_cast<std::size_t>(p.OH * run);
  pass.weight_bytes = sizeof(float) * static_cast<std::size_t>(window * per_thread);
  pass.pitch_bytes = sizeof(float) * static_cast<std::size_t>(window);
  return find_cut(pass);
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
        Cut cut;
        cut.groups = in_block, cut.splits = splits, cut.chunk = chunk;
        cut.threads = window * chunk * in_block * splits;
        if (cut.threads > most_threads) break;
        const std::size_t parts =
            splits == 1 ? 0 : sizeof(float) * static_cast<std::size_t>(cut.threads * per_thread * window);
        cut.shared = std::max(static_cast<std::size_t>(chunk) * plane +
                                  static_cast<std::size_t>(in_block * per_thread) * g_plane + 64,
                              parts);
        if (cut.shared > shared_limit()) continue;
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

/// Calls body with the window size, the channels per thread and the images per thread as compile-time constants.
template <class Body>
void with_sizes(std::int64_t window, int per_thread, int each, const Body& body) {
  constexpr std::integral_constant<int, 1> one;
  constexpr std::integral_constant<int, 2> two;
  constexpr std::integral_constant<int, 3> three;
  constexpr std::integral_constant<int, 4> four;
  constexpr std::integral_constant<int, 5> five;
  if (window == 3) return per_thread == 5 ? body(three, five, one) : body(three, four, one);
  if (each == 1) return per_thread == 5 ? body(five, five, one) : body(five, four, one);
  per_thread == 5 ? body(five, five, two) : body(five, four, two);
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
  with_sizes(shape.KH, per_thread, cut.each, [&](auto window, auto channels, auto each) {
    constexpr auto kernel = forward_kernel<window.value, channels.value, each.value>;
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
  with_sizes(shape.KH, per_thread, cut.each, [&](auto window, auto channels, auto each) {
    constexpr auto kernel = grad_x_kernel<window.value, channels.value, each.value>;
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
  with_sizes(shape.KH, per_thread, 1, [&](auto window, auto channels, auto) {
    constexpr auto kernel = grad_weight_kernel<window.value, channels.value>;
    if (way.cut.shared > 48 * 1024) allow_shared(reinterpret_cast<const void*>(kernel), way.cut.shared);
    const dim3 blocks(static_cast<unsigned>(way.slices), static_cast<unsigned>(way.group_parts + 1),
                      static_cast<unsigned>(way.chunks));
    launch(context, Grid(blocks, whole_warps(way.cut.threads), way.cut.shared), kernel, partials, g, x, p, way.cut,
           way.images_per_slice, way.group_parts);
  });
}

}  // namespace tern::cuda
