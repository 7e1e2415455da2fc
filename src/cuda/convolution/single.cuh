#pragma once
// Convolutions of one input channel, or with one output: they read and write little more than their images. Of their
// two images one is a single plane, the other has `planes`. Channels first: adjacent threads have adjacent columns, and
// a thread has a strip of rows, so that it reads an element once for all taps of a column.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/elementwise.cuh"

namespace tern::cuda::convolution::single {

/// Square kernels of 1, 3, 5 or 7. Stride and dilation are equal, or one of them is 1: then the rows that the taps of a
/// strip read are equally far apart.
bool walks(const Problem& problem);
/// One input channel or one output.
bool fits(const Problem& problem);
/// Whether it is faster than the algorithms for small planes, where those fit.
bool is_preferred(const Problem& problem);
inline bool fits_first(const Problem& problem) { return fits(problem) && is_preferred(problem); }
inline bool fits_last(const Problem& problem) { return fits(problem) && !is_preferred(problem); }

/// How a pass walks over planes: strips of positions of one image, and their windows in the other. The pass back to x
/// reads gradients of y with zeros between them, `apart` positions from one to the next, at stride 1.
struct Walk {
  int images, planes;
  int read_h, read_w, at_h, at_w;  ///< of the plane with windows, and of that with strips
  int stride, apart, pad_h, pad_w, dilation;
  int step;  ///< rows between the positions of a strip
  Divisor<std::uint32_t> columns, strips;

  /// Strips of `rows` positions of a column.
  std::int64_t strips_of(int rows) const { return ceil_div(at_h, std::int64_t{rows} * step) * step; }
  /// Those of all images.
  std::int64_t items(int rows) const { return images * strips_of(rows) * at_w; }
  void cut(int rows) {
    columns = Divisor<std::uint32_t>(at_w);
    strips = Divisor<std::uint32_t>(strips_of(rows));
  }
};
Walk walk_of(const Problem& problem, bool back);

/// Where a strip of `rows` positions begins.
template <int rows>
struct Strip {
  int image, row, column;
  __device__ __forceinline__ Strip(std::uint32_t item, const Walk& walk) {
    column = static_cast<int>(walk.columns.split(item));
    const int strip = static_cast<int>(walk.strips.split(item));
    image = static_cast<int>(item);
    row = strip / walk.step * (rows * walk.step) + strip % walk.step;
  }
};

/// What a strip reads through the taps of a column; padding is zero. S: the rows of it between positions.
template <int K, int S, bool apart, int rows>
struct Window {
  static constexpr int length = (rows - 1) * S + K;
  float value[length];

  /// The place of a row or column in memory; -1: there is none.
  static __device__ __forceinline__ int place(int at, int count, const Walk& walk) {
    if (!apart) return static_cast<unsigned>(at) < static_cast<unsigned>(count) ? at : -1;
    const int stored = at / walk.apart;
    return at >= 0 && stored * walk.apart == at && stored < count ? stored : -1;
  }
  template <class E>
  __device__ __forceinline__ void load(const E* plane, const Strip<rows>& strip, int tap, const Walk& walk) {
    const int w = place(strip.column * walk.stride - walk.pad_w + tap * walk.dilation, walk.read_w, walk);
    const int first = strip.row * walk.stride - walk.pad_h;
#pragma unroll
    for (int j = 0; j < length; ++j) {
      const int h = place(first + j * walk.dilation, walk.read_h, walk);
      value[j] = (w >= 0) & (h >= 0) ? widened(plane[h * walk.read_w + w]) : 0.0f;
    }
  }
};

/// Positions of a strip, so that its windows fit registers.
template <int K, int S>
constexpr int rows_of = K == 7 && S == 2 ? 2 : 4;

/// The taps of a column lie together in shared memory, from a multiple of 16 bytes on.
template <int K>
constexpr int tap_pitch = (K + 3) / 4 * 4;

/// The taps of a column.
template <int K>
struct Taps {
  float value[tap_pitch<K>];
  __device__ __forceinline__ Taps(const float* shared, int column) {
    if constexpr (K == 1) {
      value[0] = *shared;
    } else {
#pragma unroll
      for (int i = 0; i < tap_pitch<K>; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(shared + column * tap_pitch<K> + i);
        value[i] = four.x, value[i + 1] = four.y, value[i + 2] = four.z, value[i + 3] = four.w;
      }
    }
  }
};

/// Calls body(size, S, apart) with constants.
template <class Body>
void with_window(const Problem& p, bool back, const Body& body) {
  using One = std::integral_constant<int, 1>;
  const auto of_size = [&](auto size) {
    if (back && p.stride_h > 1) return body(size, One{}, std::true_type{});
    if (!back && p.stride_h == 2 && p.dilation_h == 1)
      return body(size, std::integral_constant<int, 2>{}, std::false_type{});
    body(size, One{}, std::false_type{});
  };
  if (p.KH == 1) return of_size(One{});
  if (p.KH == 3) return of_size(std::integral_constant<int, 3>{});
  if (p.KH == 5) return of_size(std::integral_constant<int, 5>{});
  of_size(std::integral_constant<int, 7>{});
}

/// The gradient of the weight, also for groups of few channels; its workspace.
void run_grad_weight(Context& context, const Problem& problem, const Arrays& arrays, int plan, void* workspace);
std::size_t grad_weight_workspace(const Problem& problem, int plan);

}  // namespace tern::cuda::convolution::single
