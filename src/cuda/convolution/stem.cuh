#pragma once
// Convolutions of 16 bits with few input channels, channels last, on tensor cores: the first layer of a network for
// images. A block keeps the rows of x under its windows in shared memory, in the order of x, and reads fragments from
// there: windows are never written out. The sum runs over (kernel row, kernel column, channel). A kernel row's factors
// are adjacent in x and are read in pairs, which are the words of a fragment.

#include "cuda/async_copy.cuh"
#include "cuda/elementwise.cuh"
#include "tern/kernels/conv.hpp"

namespace tern::cuda::convolution::stem {

using Divide = Divisor<std::uint32_t>;

constexpr std::int64_t most_channels = 4;
constexpr int most_warps = 8;

/// Rows of x in shared memory, in elements. Eight adjacent positions of a row of y are an octet.
struct Patch {
  int H, line;                ///< rows of an image; elements of one
  int copied, before, pitch;  ///< of a line; what stands before them here, zeros; from row to row here
  int origin, step;           ///< where the window of a row's first position begins, and from one to the next
  int C, stride_h, pad_h, KH, run, lead, pairs;  ///< of a kernel row: elements, those before them, pairs of both
  int OH, OW, octets;                            ///< octets of an image
  int per_tile, tiles, rows;  ///< octets of a tile, tiles of all images, rows of a tile's patch at most
  int bytes;                  ///< of a patch
  bool whole;                 ///< lines are copied in runs of 16 bytes, else in registers, with all around them
  Divide of_row, of_image, of_line, of_pairs, of_window, of_side;

  /// The pairs of a window.
  __host__ __device__ int all_pairs() const { return KH * pairs; }
};

constexpr std::int64_t up(std::int64_t count, std::int64_t to) { return (count + to - 1) / to * to; }
/// Whether windows begin at odd elements, too: then a pair may lie in two words.
inline bool is_odd(const kernels::Conv2d& p) { return p.stride_w * p.C % 2 != 0; }

/// `aligned`: x begins at 16 bytes.
inline Patch patch_of(const kernels::Conv2d& p, int per_tile, bool aligned) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  const std::int64_t padding = p.pad_w * p.C, line = p.W * p.C, run = p.KW * p.C, step = p.stride_w * p.C;
  // Words begin at even elements: an odd padding gets one more element before it.
  const std::int64_t lead = is_odd(p) ? 0 : padding % 2, pairs = (lead + run + 1) / 2;
  const std::int64_t before = up(padding + lead, 8), origin = before - padding - lead;
  const std::int64_t end = origin + (p.OW - 1) * step + 2 * pairs + (is_odd(p) ? 2 : 0);
  const bool whole = aligned && line % 8 == 0;
  std::int64_t copied = std::max<std::int64_t>(0, std::min(line, end - before));
  if (whole) copied = up(copied, 8);
  const std::int64_t pitch = up(std::max(end, before + copied), 8);
  const std::int64_t in_row = ceil_div(p.OW, 8), octets = p.OH * in_row;
  const std::int64_t rows = (std::min(p.OH, (in_row + per_tile - 2) / in_row + 1) - 1) * p.stride_h + p.KH;
  // Positions beyond a row's last one read on.
  const std::int64_t bytes = up((rows * pitch + 7 * step + 8) * 2, 128), of_image = ceil_div(octets, per_tile);
  return {i(p.H),
          i(line),
          i(copied),
          i(before),
          i(pitch),
          i(origin),
          i(step),
          i(p.C),
          i(p.stride_h),
          i(p.pad_h),
          i(p.KH),
          i(run),
          i(lead),
          i(pairs),
          i(p.OH),
          i(p.OW),
          i(octets),
          per_tile,
          i(p.N * of_image),
          i(rows),
          i(bytes),
          whole,
          Divide(in_row),
          Divide(of_image),
          Divide(whole ? std::max<std::int64_t>(copied / 8, 1) : pitch / 8),
          Divide(pairs),
          Divide(p.KH * p.KW),
          Divide(p.KW)};
}

/// Whether engines are slower (measured on an H200). They reach a higher rate, which counts for many outputs. For long
/// sums, too, where positions do not fill the card.
inline bool beats_engines(const kernels::Conv2d& p, std::int64_t most_outputs_of_long_sums) {
  constexpr std::int64_t most_outputs = 128, long_sum = 224, tile = 1024;
  const bool few = p.N * p.OH * p.OW < tile * card().multiprocessors;
  return p.O <= most_outputs && (p.C * p.KH * p.KW <= long_sum || (!few && p.O <= most_outputs_of_long_sums));
}

// ---- in a kernel ----

/// A block's octets of an image, from first to last, which begin in row `row` of y, and the rows of x under them.
struct Tile {
  int image, first, last, row, rows;
};
__device__ __forceinline__ Tile tile_of(const Patch& p, int index) {
  Tile tile;
  int at;
  p.of_image.split(index, tile.image, at);
  tile.first = at * p.per_tile, tile.last = min(tile.first + p.per_tile, p.octets) - 1;
  tile.row = static_cast<int>(p.of_row.quotient(static_cast<std::uint32_t>(tile.first)));
  const int last_row = static_cast<int>(p.of_row.quotient(static_cast<std::uint32_t>(tile.last)));
  tile.rows = (last_row - tile.row) * p.stride_h + p.KH;
  return tile;
}

/// An octet's row of y, and its first column.
struct Octet {
  int row, column;
  __device__ __forceinline__ Octet(const Patch& p, int index) {
    p.of_row.split(index, row, column);
    column *= 8;
  }
  /// The bytes from the patch to the window of its first position.
  __device__ __forceinline__ int window(const Patch& p, const Tile& tile) const {
    return 2 * ((row - tile.row) * p.stride_h * p.pitch + p.origin + column * p.step);
  }
};

/// The zeros beside the lines, which no copy overwrites.
__device__ __forceinline__ void clear_margins(const Patch& p, std::uint8_t* patch) {
  if (!p.whole) return;  // every copy writes them
  const int left = p.before / 8, all = left + (p.pitch - p.before - p.copied) / 8;
  for (int i = static_cast<int>(threadIdx.x); i < p.rows * all; i += static_cast<int>(blockDim.x)) {
    const int row = i / all, at = i % all;
    *reinterpret_cast<uint4*>(patch + 2 * (row * p.pitch + (at < left ? at * 8 : p.copied + at * 8))) = uint4{};
  }
}

/// The elements [at, at + 8) of a line; zeros for those outside of [0, count). A line may begin within a word.
template <class T>
__device__ __forceinline__ uint4 eight_at(const T* line, int at, int count) {
  if (at < 0 || at >= count) return uint4{};
  const T* const from = line + at;
  std::uint32_t words[5]{};
  const int beyond = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % 4);
  if (at + 8 <= count) {
    const auto* const whole = reinterpret_cast<const std::uint32_t*>(from - beyond / 2);
#pragma unroll
    for (int i = 0; i < 5; ++i)
      if (i < 4 || beyond != 0) words[i] = __ldg(whole + i);
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = __funnelshift_r(words[i], words[i + 1], beyond * 8);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (at + i < count) words[i / 2] |= static_cast<std::uint32_t>(from[i].bits) << i % 2 * 16;
  }
  return {words[0], words[1], words[2], words[3]};
}

/// Copies a tile's rows of x, with zeros for those that do not exist. Whole lines arrive with the thread's copies in
/// flight.
template <class T>
__device__ __forceinline__ void copy_patch(const Patch& p, std::uint8_t* patch, const T* x, const Tile& tile) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int first = tile.row * p.stride_h - p.pad_h, count = tile.rows * static_cast<int>(p.of_line.value());
  const T* const from = x + static_cast<std::int64_t>(tile.image) * p.H * p.line;
  if (p.whole) {
    if (p.copied == 0) return;
    for (int i = thread; i < count; i += threads) {
      int row, at;
      p.of_line.split(i, row, at);
      const bool inside = static_cast<unsigned>(first + row) < static_cast<unsigned>(p.H);
      copy_async<4>(reinterpret_cast<float*>(patch + 2 * (row * p.pitch + p.before + at * 8)),
                    reinterpret_cast<const float*>(from + (inside ? (first + row) * p.line + at * 8 : 0)), inside);
    }
    return;
  }
  constexpr int at_once = 2;
#pragma unroll 1
  for (int begin = thread; begin < count; begin += at_once * threads) {
    uint4 eight[at_once];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      int row, at;
      p.of_line.split(min(begin + j * threads, count - 1), row, at);
      const bool inside = static_cast<unsigned>(first + row) < static_cast<unsigned>(p.H);
      eight[j] = eight_at(from + (inside ? (first + row) * p.line : 0), at * 8 - p.before, inside ? p.copied : 0);
    }
#pragma unroll
    for (int j = 0; j < at_once; ++j)  // a row's runs follow those of the row before
      if (begin + j * threads < count) reinterpret_cast<uint4*>(patch)[begin + j * threads] = eight[j];
  }
}

/// The bytes from a window to a pair of its elements, and which of them are summed.
struct Pair {
  int offset = 0;
  std::uint32_t mask = 0;
  __device__ __forceinline__ Pair(const Patch& p, int index) {
    if (index >= p.all_pairs()) return;
    int kh, at;
    p.of_pairs.split(index, kh, at);
    const int element = 2 * at - p.lead;
    offset = 2 * (kh * p.pitch + 2 * at);
    mask = (element >= 0 && element < p.run ? 0xffffu : 0u) | (element + 1 < p.run ? 0xffff0000u : 0u);
  }
};

/// Where an element of an output's weight, in the order of the caller, stands in the sum.
__device__ __forceinline__ int place_of(const Patch& p, int index) {
  int c, tap, kh, kw;
  p.of_window.split(index, c, tap);
  p.of_side.split(tap, kh, kw);
  return kh * 2 * p.pairs + p.lead + kw * p.C + c;
}

/// Two elements of a patch; `odd`: that may begin within a word.
template <bool odd>
__device__ __forceinline__ std::uint32_t word_at(const std::uint8_t* patch, int at) {
  if constexpr (odd) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(patch + (at & ~3));
    return __funnelshift_r(words[0], words[1], (at & 2) * 8);
  } else {
    return *reinterpret_cast<const std::uint32_t*>(patch + at);
  }
}

}  // namespace tern::cuda::convolution::stem
