#pragma once
// Shared by the three passes of the direct convolutions.

#include <functional>
#include <type_traits>

#include "cuda/async_copy.cuh"
#include "cuda/convolution/algorithms.cuh"
#include "cuda/elementwise.cuh"

namespace tern::cuda::convolution {

// For square 3x3 and 5x5 windows of stride 1 over small planes: a block keeps whole planes in shared memory, and a
// thread holds a run of 8 positions for a few channels in registers. `splits` groups of threads share the sum over the
// summed channels; their parts are added in order. Those channels come in chunks; the next one is in flight while one
// is multiplied.
constexpr int run = 8;
constexpr int most_threads = 384;  // leaves a thread the registers for its sums

inline int channels_per_thread(std::int64_t channels) { return channels % 5 == 0 ? 5 : 4; }

/// How a launch is cut.
struct Cut {
  int images = 1;   ///< per block
  int groups = 1;   ///< of channels per block
  int splits = 1;   ///< of the sum, within a block
  int chunk = 1;    ///< channels of the sum that are in shared memory at a time
  int threads = 0;  ///< in use, before rounding up to warps; 0: no cut fits the card's shared memory
  std::size_t shared = 0;
};

/// The layout of an H x W plane in shared memory, with zeros around it.
struct Plane {
  int H, W, pad_h, pad_w, rows, pitch;  // stored rows, and the floats of one
  int stride;                           // floats from one plane to the next
  bool flat;                            // as in memory
  Divisor<std::uint32_t> stored, row;   // division by rows * pitch and by pitch
  __host__ __device__ int size() const { return rows * pitch; }
};

struct Planes {
  int N, C, O, OH, OW;
  int segments;  // runs in a row of y
  Plane x, y;
};

Planes planes(const Problem& problem);
/// float32, channels first, a square window of 3 or 5, stride 1, planes small enough.
bool small_window(const Problem& problem);

/// A pass as the search below sees it.
struct Work {
  int images, channels, groups;                // images, summed channels, groups of output channels
  int lanes;                                   // threads per (image, group)
  int values;                                  // sums per thread that are added over the splits at once
  std::function<double(const Cut&)> executed;  // multiply-adds that take a block's warps time, per summed channel
  double efficiency, copied;                   // of the multiply-adds; bytes per cycle: both fitted
  int registers;                               // per thread, roughly
  std::size_t image_bytes, weight_bytes;       // shared memory per channel: of an image, of a group
  std::size_t channel_padding, group_padding;  // additional memory, at most
};
/// Shared memory that a block may use.
std::size_t shared_limit();
/// The cheapest cut. Arithmetic on sizes only, so that a shape is always cut, and summed, in the same way.
Cut find_cut(const Work& work);

inline unsigned whole_warps(int threads) { return static_cast<unsigned>((threads + 31) / 32 * 32); }
/// Chunks that are in shared memory at once.
__host__ __device__ inline int stages(int chunks) { return chunks > 1 ? 2 : 1; }

/// The distance between lines of weights: an odd number of floats, or of packs of four if copied in fours, so that
/// adjacent ones are in different banks.
inline int pitch_of_lines(int length) { return length % 4 == 0 ? (length / 4 | 1) * 4 : length | 1; }

/// Calls body with the window size and the channels per thread as compile-time constants.
template <class Body>
void with_sizes(std::int64_t window, int per_thread, const Body& body) {
  constexpr std::integral_constant<int, 3> three;
  constexpr std::integral_constant<int, 4> four;
  constexpr std::integral_constant<int, 5> five;
  if (window == 3) return per_thread == 5 ? body(three, five) : body(three, four);
  per_thread == 5 ? body(five, five) : body(five, four);
}

// ---- chunks in flight; all threads of the block take part ----

/// Copies `channels` planes of one image.
__device__ __forceinline__ void copy_planes(float* to, const float* from, int channels, const Plane& plane) {
  const int count = channels * plane.size();
  if (plane.flat && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) * 4; i < count; i += static_cast<int>(blockDim.x) * 4) {
      int channel, rest;
      plane.stored.split(i, channel, rest);
      copy_async<4>(to + channel * plane.stride + rest, from + i, true);
    }
    return;
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    int channel, rest, row, column;
    plane.stored.split(i, channel, rest);
    plane.row.split(rest, row, column);
    const int h = row - plane.pad_h, w = column - plane.pad_w;
    const bool inside = h >= 0 && h < plane.H && w >= 0 && w < plane.W;
    copy_async<1>(to + channel * plane.stride + rest, from + (inside ? (channel * plane.H + h) * plane.W + w : 0),
                  inside);
  }
}

/// Copies `lines` lines of `length` floats, `stride` apart, to lines `pitch` apart.
__device__ __forceinline__ void copy_lines(float* to, const float* from, int lines, int length, int stride,
                                           const Divisor<std::uint32_t>& pitch) {
  const bool fours =
      reinterpret_cast<std::uintptr_t>(from) % 16 == 0 && length % 4 == 0 && stride % 4 == 0 && pitch.value() % 4 == 0;
  const int step = fours ? 4 : 1, count = lines * static_cast<int>(pitch.value());
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) * step; i < count; i += static_cast<int>(blockDim.x) * step) {
    int line, at;
    pitch.split(i, line, at);
    if (at >= length) continue;
    if (fours)
      copy_async<4>(to + i, from + line * stride + at, true);
    else
      copy_async<1>(to + i, from + line * stride + at, true);
  }
}

/// Runs use(chunk, stage) for each chunk, in order; copy(chunk, stage) has loaded it, and the next one is in flight.
template <class Copy, class Use>
__device__ __forceinline__ void each_chunk(int chunks, const Copy& copy, const Use& use) {
#pragma unroll 1
  for (int next = 0; next <= chunks; ++next) {
    if (next < chunks) copy(next, next % 2);
    commit_copies();
    if (next == 0) continue;
    await_copies<1>();
    __syncthreads();
    use(next - 1, (next - 1) % 2);
    __syncthreads();
  }
}

__device__ __forceinline__ void read_run(float* to, const float* from, int count) {
#pragma unroll
  for (int i = 0; i < count; i += 4) *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(from + i);
}

/// One channel's sum over the images of a batch, `stride` floats apart, by a warp; its first lane gets the result.
__device__ __forceinline__ float sum_channel(const float* from, int images, int stride,
                                             const Divisor<std::uint32_t>& area) {
  const int positions = static_cast<int>(area.value()), count = images * positions;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool fours = positions % 4 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  const auto at = [&](int i) {
    int image, position;
    area.split(i, image, position);
    return from + static_cast<std::int64_t>(image) * stride + position;
  };
  float sum = 0;
  if (fours) {
#pragma unroll 8
    for (int i = lane * 4; i < count; i += 128) {
      const float4 four = *reinterpret_cast<const float4*>(at(i));
      sum += (four.x + four.y) + (four.z + four.w);
    }
  } else {
#pragma unroll 8
    for (int i = lane; i < count; i += 32) sum += *at(i);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  return sum;
}

/// Adds the parts of the splits in order. Every thread has stored its sums, lines of `columns`, at part[sum * threads +
/// thread], with threads numbered through the splits; use(line, thread of the first split, sums) gets the totals.
template <int columns, class Use>
__device__ __forceinline__ void add_splits(const float* part, int lines, int threads, int splits, const Use& use) {
  const int per_split = threads / splits;
#pragma unroll 1
  for (int e = static_cast<int>(threadIdx.x); e < lines * per_split; e += static_cast<int>(blockDim.x)) {
    const int line = e / per_split, thread = e % per_split;
    const float* const from = part + line * columns * threads + thread;
    float total[columns] = {};
#pragma unroll 1
    for (int s = 0; s < splits; ++s)
#pragma unroll
      for (int i = 0; i < columns; ++i) total[i] += from[i * threads + s * per_split];
    use(line, thread, total);
  }
}

}  // namespace tern::cuda::convolution
