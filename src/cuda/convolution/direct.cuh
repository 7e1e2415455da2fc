#pragma once
// What the three passes of the direct convolutions share.

#include <type_traits>

#include "cuda/convolution/ways.cuh"
#include "cuda/elementwise.cuh"

namespace tern::cuda::convolution {

// For square 3x3 and 5x5 windows of stride 1 over small planes: a block keeps whole planes in shared memory, a thread
// holds a run of 8 positions for a few channels in registers. `splits` groups of threads share the sum over the
// channels that are summed away; their parts are added in order.
constexpr int run = 8;
constexpr int most_threads = 384;  // leaves a thread the registers for its sums

inline int channels_per_thread(std::int64_t channels) { return channels % 5 == 0 ? 5 : 4; }

/// How a launch is cut.
struct Cut {
  int images = 1;   ///< per block, a multiple of `each`
  int each = 1;     ///< images per thread: two share every weight that is read
  int groups = 1;   ///< of channels per block
  int splits = 1;   ///< of the sum, within a block
  int chunk = 1;    ///< channels of the sum that are in shared memory at a time
  int threads = 0;  ///< in use, before rounding up to warps; 0: no cut fits the card's shared memory
  std::size_t shared = 0;
};

struct Planes {
  int N, C, H, W, O, OH, OW, pad_h, pad_w;
  int segments, pitch, rows;          // runs in a row; floats in a stored row; stored rows of a plane
  bool flat;                          // stored planes equal those in memory
  Divisor<std::uint32_t> plane, row;  // rows * pitch and pitch
};

Planes planes(const Problem& problem);
/// float32 in the order of the shape, a square window of 3 or 5, stride 1, planes small enough.
bool small_window(const Problem& problem);

/// What one pass looks like to the search below.
struct Work {
  int images, channels, groups;                        // images, channels summed away, groups of output channels
  int lanes;                                           // threads per (images of a thread, group)
  int values;                                          // sums per thread and image
  int most_each;                                       // images that a thread can take
  double terms;                                        // multiply-adds per (image, group, channel summed)
  double alone;                                        // those of one thread per image and channel summed
  double efficiency[2];                                // of the multiply-adds, with one image per thread and with two
  int registers;                                       // per thread, roughly
  std::size_t image_bytes, weight_bytes, pitch_bytes;  // shared memory per channel: an image's, a group's, padding
};
/// Shared memory that a block may plan with.
std::size_t shared_limit();
/// The cheapest cut. Arithmetic on sizes only, so that a shape is always cut, and summed, in the same way.
Cut find_cut(const Work& work);

inline unsigned whole_warps(int threads) { return static_cast<unsigned>((threads + 31) / 32 * 32); }

/// Calls body with the window size and the channels per thread as compile-time constants.
template <class Body>
void with_sizes(std::int64_t window, int per_thread, const Body& body) {
  constexpr std::integral_constant<int, 3> three;
  constexpr std::integral_constant<int, 4> four;
  constexpr std::integral_constant<int, 5> five;
  if (window == 3) return per_thread == 5 ? body(three, five) : body(three, four);
  per_thread == 5 ? body(five, five) : body(five, four);
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

}  // namespace tern::cuda::convolution
