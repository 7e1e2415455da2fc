#pragma once
// The copies of padded.cu, between the caller's channels and lanes.

#include "cuda/elementwise.cuh"

namespace tern::cuda::convolution {
namespace {

/// The channels of a group, real and padded, and how the caller's array holds them.
struct Channels {
  int real;
  Divisor<std::uint32_t> padded;
  std::int64_t lanes;  ///< the same number
  int groups, area;
  std::int64_t pitch;  ///< elements from one position to the next; 0: channels first
  int images;          ///< of a group, where those of each lie together; else 0
};

constexpr int side = 32, lines = 8, tall = 2 * side;

/// 16-bit elements that a thread moves at once, as they lie in lanes.
template <class To, class From>
constexpr int at_once = sizeof(To) == 2 && sizeof(From) == 2 ? 2 : 1;

/// Each block moves 64 positions by some lanes between the caller's array and [N, area, groups, padded], or
/// [groups, N, area, padded]. On the way back a number passes through `finish`, with its channel. Paired: so do two of
/// the caller's elements.
template <bool back, class To, class From, class Finish>
__global__ void __launch_bounds__(side* lines)
    regroup_kernel(To* to, const From* from, const __grid_constant__ Channels s, bool paired, const Finish finish) {
  constexpr int W = at_once<To, From>, wide = side * W, packs = wide * tall / (side * lines) / W;
  __shared__ float tile[wide][tall + 1];  // [lane][position]
  begin_kernel();
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int first_p = static_cast<int>(blockIdx.x) * tall, first_lane = static_cast<int>(blockIdx.y) * wide;
  const int n = static_cast<int>(blockIdx.z), lanes = s.groups * static_cast<int>(s.padded.value());
  /// The caller's element of a position and a lane, and its channel; -1: there is none.
  const auto channel_of = [&](int p, int lane) {
    int group, c;
    s.padded.split(first_lane + lane, group, c);
    return first_lane + lane < lanes && c < s.real && first_p + p < s.area ? group * s.real + c : -1;
  };
  const auto own = [&](int p, int channel) {
    return s.pitch == 0 ? (static_cast<std::int64_t>(n) * s.groups * s.real + channel) * s.area + first_p + p
                        : (static_cast<std::int64_t>(n) * s.area + first_p + p) * s.pitch + channel;
  };
  const auto in_lanes = [&](int p, int lane) {
    if (s.images == 0) return (static_cast<std::int64_t>(n) * s.area + first_p + p) * lanes + first_lane + lane;
    int group, c;
    s.padded.split(first_lane + lane, group, c);
    return ((static_cast<std::int64_t>(group) * s.images + n) * s.area + first_p + p) * s.lanes + c;
  };
  // visit(number, position, lane) for the first elements of packs along lanes or positions.
  const auto each = [&](bool along_lanes, const auto& visit) {
#pragma unroll
    for (int i = 0; i < packs; ++i) {
      const int lane = along_lanes ? x * W : y + i % (wide / lines) * lines;
      const int p = along_lanes ? y + i * lines : x * W + i / (wide / lines) * wide;
      if (first_p + p < s.area) visit(i, p, lane);
    }
  };
  const bool last = s.pitch != 0;
  const int down = back || last ? 0 : 1, across = 1 - down;  // from an element of a pack that is read to the next
  Pack<float, W> held[packs];                                // all loads are in flight together
  each(back || last, [&](int i, int p, int lane) {
    held[i] = {};
    if (back) {
      if (first_lane + lane < lanes) held[i] = load<W>(from + in_lanes(p, lane));
    } else if (paired) {
      if (const int channel = channel_of(p, lane); channel >= 0) held[i] = load<W>(from + own(p, channel));
    } else {
#pragma unroll
      for (int w = 0; w < W; ++w) {
        const int channel = channel_of(p + w * down, lane + w * across);
        if (channel >= 0) held[i].value[w] = widened(from[own(p + w * down, channel)]);
      }
    }
  });
  each(back || last, [&](int i, int p, int lane) {
#pragma unroll
    for (int w = 0; w < W; ++w) tile[lane + w * across][p + w * down] = held[i].value[w];
  });
  __syncthreads();
  const int below = !back || last ? 0 : 1, beside = 1 - below;  // likewise of one that is written
  each(!back || last, [&](int, int p, int lane) {
    Pack<float, W> values;
    int channel = 0;
#pragma unroll
    for (int w = 0; w < W; ++w) {
      values.value[w] = tile[lane + w * beside][p + w * below];
      if constexpr (back) {
        channel = channel_of(p + w * below, lane + w * beside);
        if (channel < 0) continue;
        values.value[w] = finish(values.value[w], channel);
        if (!paired) put(to[own(p + w * below, channel)], values.value[w]);
      }
    }
    if constexpr (back) {
      if (paired && channel >= 0) store<W>(to + own(p, channel - (W - 1) * beside), values);
    } else {
      if (first_lane + lane < lanes) store<W>(to + in_lanes(p, lane), values);
    }
  });
}

struct Unchanged {
  __device__ float operator()(float value, int) const { return value; }
};
template <class T>
struct Epilogue {
  const T* bias;
  Activation activation;
  __device__ float operator()(float sum, int o) const {
    return activate(bias == nullptr ? sum : sum + widened(bias[o]), activation);
  }
};

template <bool back, class To, class From, class Finish>
void regroup(const Context& context, To* to, const From* from, const Channels& s, std::int64_t N,
             const Finish& finish) {
  constexpr int W = at_once<To, From>;
  const std::int64_t lanes = s.groups * s.lanes;
  const dim3 blocks(static_cast<unsigned>(ceil_div(s.area, tall)), static_cast<unsigned>(ceil_div(lanes, side * W)),
                    static_cast<unsigned>(N));
  const bool pairs = s.pitch == 0 ? s.area % W == 0 : s.groups == 1 && s.pitch % W == 0 && s.real % W == 0;
  const bool paired = pairs && (back ? aligned<W>(to) : aligned<W>(from));
  launch(context, Grid(blocks, dim3(side, lines)), regroup_kernel<back, To, From, Finish>, to, from, s, paired, finish);
}

/// A bias of [groups, padded] from one of [groups, real].
template <class T>
__global__ void bias_kernel(T* to, const T* bias, int count, int real, Divisor<std::uint32_t> padded) {
  begin_kernel();
  const auto i = static_cast<int>(global_thread());
  if (i >= count) return;
  int group, o;
  padded.split(i, group, o);
  to[i] = o < real ? bias[group * real + o] : T{};
}

}  // namespace
}  // namespace tern::cuda::convolution
