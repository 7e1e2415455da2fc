#pragma once
// Convolutions in which an output reads few channels: they read and write little more than their images. A thread keeps
// a strip of outputs in registers, and reads each position that the strip needs once per row of taps. Channels last, a
// strip runs along a row; channels first, along a column, because adjacent threads have adjacent columns there.

#include "cuda/convolution/problem.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/fused.cuh"

namespace tern::cuda::convolution::strips {

/// One side of the images that a kernel reads and writes. A strip runs along one, the other is `across`.
struct Side {
  int read, written;                     ///< positions
  int taps, stride, pad, dilation;       ///< of the convolution
  std::int64_t read_pitch, write_pitch;  ///< elements from one position to the next
  int tap_pitch;                         ///< elements of the weight from one tap to the next
};

/// A pass in its kernels' types. The pass back to x reads gradients of y.
struct Work {
  Side strip, across;
  int images;                            ///< channels first, an image is one plane
  int channels;                          ///< that are written
  std::int64_t read_image, write_image;  ///< elements of an image
  int rows_each;                         ///< rows that a thread walks down, channels last
  Divisor<std::uint32_t> strips, parts;  ///< of a row, or of a column; parts of the other side
};

/// The positions that R outputs of a strip read, for K taps at stride S; `back` from y to x.
template <bool back, int K, int S, int R>
struct Window {
  static_assert(!back || R % S == 0);
  static constexpr int length = back ? (R - 1) / S + (K - 1) / S + 1 : (R - 1) * S + K;
  /// The one that output r reads through tap k; -1: none.
  static __host__ __device__ constexpr int place(int r, int k) {
    if (!back) return r * S + k;
    return r % S != k % S ? -1 : r / S - k / S + (K - 1) / S;
  }
  static __host__ __device__ int first_read(int strip, int pad) {
    return back ? pad / S + strip * (R / S) - (K - 1) / S : strip * R * S - pad;
  }
  static __host__ __device__ int first_written(int strip, int pad) { return back ? strip * R - pad % S : strip * R; }
  static int strips(int written, int pad) { return (written + (back ? pad % S : 0) + R - 1) / R; }
};

/// The taps of one side that reach a written position, and what they read: tap first, first + step, ...
struct Reach {
  int first, step, row, row_step;
  __device__ __forceinline__ Reach(bool back, int at, const Side& side) {
    if (back) {
      const int padded = at + side.pad;
      first = padded % side.stride;
      step = side.stride;
      row = padded / side.stride;
      row_step = -1;
    } else {
      first = 0;
      step = 1;
      row = at * side.stride - side.pad;
      row_step = 1;
    }
  }
};

/// Threads of a block by packs of channels, channels last, and by strips.
struct Lanes {
  int tiles, lanes, rows;  ///< adjacent blocks, packs of a block, threads of each
  Lanes(std::int64_t packs, int threads, int most) {
    tiles = static_cast<int>(ceil_div(packs, most));
    lanes = static_cast<int>(ceil_div(packs, tiles));
    rows = std::max(1, threads / lanes);
  }
};

/// For a forward pass or one back to x, without strips and parts.
Work work_of(const Problem& problem);

/// Whether everything about such a pass can be counted in 32 bits.
bool is_countable(const Problem& problem);

/// Whether x and y may be read and written in packs of four channels.
inline bool in_fours(const Problem& p) {
  return p.channels_last() && p.element != Element::float64 && p.C % 4 == 0 && p.y_channels % 4 == 0 &&
         p.inputs.x % 16 == 0 && p.inputs.y % 16 == 0;
}

/// The arrays that a pass reads and writes.
template <class T>
struct Operands {
  T* to;
  const T *from, *weight, *bias;
  Activation activation;
  Operands(const Problem& p, const Arrays& arrays)
      : to(static_cast<T*>(p.pass == Pass::forward ? arrays.y : arrays.x)),
        from(static_cast<const T*>(p.pass == Pass::forward ? arrays.x : arrays.y)),
        weight(static_cast<const T*>(arrays.weight)),
        bias(static_cast<const T*>(p.pass == Pass::forward ? arrays.bias : nullptr)),
        activation(p.pass == Pass::forward ? p.activation : Activation::none) {}
};

/// Writes a strip of outputs with bias and activation.
template <int R, class E, class T, int V>
__device__ __forceinline__ void finish(E* to, const Pack<T, V> (&sum)[R], const E* bias, int first, const Side& strip,
                                       Activation activation) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (static_cast<unsigned>(first + r) >= static_cast<unsigned>(strip.written)) continue;
    Pack<T, V> out = sum[r];
#pragma unroll
    for (int v = 0; v < V; ++v)
      out.value[v] = activate(bias == nullptr ? out.value[v] : out.value[v] + widened(bias[v]), activation);
    store(to + r * strip.write_pitch, out);
  }
}

/// The packs that a strip reads of one row; padding is zero.
template <int V, class T, int count, class E>
__device__ __forceinline__ void load_window(Pack<T, V> (&window)[count], const E* row, bool exists, int first,
                                            const Side& strip) {
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const bool inside = exists & (static_cast<unsigned>(first + j) < static_cast<unsigned>(strip.read));
    window[j] = inside ? load<V>(row + j * strip.read_pitch) : Pack<T, V>{};
  }
}

/// The gradients of a strip of this many outputs.
template <int V, int R, class T, class E>
__device__ __forceinline__ void load_outputs(Pack<T, V> (&gradient)[R], const E* from, int outputs,
                                             std::int64_t pitch) {
#pragma unroll
  for (int r = 0; r < R; ++r) gradient[r] = r < outputs ? load<V>(from + r * pitch) : Pack<T, V>{};
}

}  // namespace tern::cuda::convolution::strips
