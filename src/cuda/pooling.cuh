#pragma once
// Shared by both directions of pooling. Arrays are [images, height, width, channels]; planes stored one after another
// are images of one channel. Threads own packs of adjacent channels.

#include "cuda/reduce.cuh"
#include "tern/kernels/pooling.hpp"

namespace tern::cuda {

using kernels::AdaptivePool2d;
using kernels::Pool2d;

/// The rule of max pooling: the first maximum, but the first NaN over everything.
template <class T>
__device__ bool beats(T value, T best) {
  return !(value <= best) && best == best;
}

/// The sizes of one plane in the card's types. `K` above 0: square windows of K elements at a stride of S without
/// dilation, as constants; 0: as the sizes say.
template <int K, int S>
struct Windows {
  int H, W, OH, OW, kernel_h, kernel_w, step_h, step_w, pad_h, pad_w, dilation_h, dilation_w;
  bool count_include_pad;
  Divisor<std::uint32_t> by_step_h, by_step_w;

  explicit Windows(const Pool2d& p)
      : H(static_cast<int>(p.H)),
        W(static_cast<int>(p.W)),
        OH(static_cast<int>(p.OH)),
        OW(static_cast<int>(p.OW)),
        kernel_h(static_cast<int>(p.KH)),
        kernel_w(static_cast<int>(p.KW)),
        step_h(static_cast<int>(p.stride_h)),
        step_w(static_cast<int>(p.stride_w)),
        pad_h(static_cast<int>(p.pad_h)),
        pad_w(static_cast<int>(p.pad_w)),
        dilation_h(static_cast<int>(p.dilation_h)),
        dilation_w(static_cast<int>(p.dilation_w)),
        count_include_pad(p.count_include_pad),
        by_step_h(p.stride_h),
        by_step_w(p.stride_w) {}
  __device__ int KH() const { return K > 0 ? K : kernel_h; }
  __device__ int KW() const { return K > 0 ? K : kernel_w; }
  __device__ int stride_h() const { return K > 0 ? S : step_h; }
  __device__ int stride_w() const { return K > 0 ? S : step_w; }

  /// use(oh, ow, kh, kw) for each window that contains the input element (h, w), in row order, with its position there.
  template <class Use>
  __device__ void each_window(int h, int w, Use use) const {
    reach(h + pad_h, kernel_h, step_h, by_step_h, dilation_h, OH, [&](int oh, int kh) {
      reach(w + pad_w, kernel_w, step_w, by_step_w, dilation_w, OW, [&](int ow, int kw) { use(oh, ow, kh, kw); });
    });
  }

  /// The divisor of an average in the window of output (oh, ow).
  template <class T>
  __device__ T divisor(int oh, int ow) const {
    const int top = oh * stride_h() - pad_h, left = ow * stride_w() - pad_w;
    if (count_include_pad)
      return static_cast<T>(static_cast<std::int64_t>(min(top + KH(), H + pad_h) - top) *
                            (min(left + KW(), W + pad_w) - left));
    return static_cast<T>(static_cast<std::int64_t>(min(top + KH(), H) - max(top, 0)) *
                          (min(left + KW(), W) - max(left, 0)));
  }

 private:
  /// The same along one dimension; `at` includes the padding.
  template <class Use>
  static __device__ void reach(int at, int kernel, int step, const Divisor<std::uint32_t>& by_step, int dilation,
                               int outputs, Use use) {
    const int before = at - (kernel - 1) * dilation;
    const int first =
        before <= 0 ? 0 : static_cast<int>(by_step.quotient(static_cast<std::uint32_t>(before + step - 1)));
    const int last = min(static_cast<int>(by_step.quotient(static_cast<std::uint32_t>(at))), outputs - 1);
    for (int output = first; output <= last; ++output) {
      const int distance = at - output * step, position = dilation == 1 ? distance : distance / dilation;
      if (position * dilation == distance) use(output, position);
    }
  }
};

/// Calls `function(windows)` with window and stride as constants if they are usual ones.
template <class Function>
void with_windows(const Pool2d& sizes, Function function) {
  const auto are = [&](std::int64_t kernel, std::int64_t stride) {
    return sizes.KH == kernel && sizes.KW == kernel && sizes.stride_h == stride && sizes.stride_w == stride &&
           sizes.dilation_h == 1 && sizes.dilation_w == 1;
  };
  if (are(2, 2))
    function(Windows<2, 2>(sizes));
  else if (are(3, 2))
    function(Windows<3, 2>(sizes));
  else if (are(3, 1))
    function(Windows<3, 1>(sizes));
  else if (are(5, 3))
    function(Windows<5, 3>(sizes));
  else
    function(Windows<0, 0>(sizes));
}

/// One dimension of an adaptive pool from `inputs` to `outputs` elements.
template <class Index>
struct Spread {
  Divisor<Index> inputs, outputs;
  struct Range {
    int first, end;
    __device__ int size() const { return end - first; }
  };
  Spread(std::int64_t from, std::int64_t to) : inputs(from), outputs(to) {}
  __device__ Range inputs_of(int output) const { return share(output, inputs, outputs); }
  /// The outputs that an input contributes to.
  __device__ Range outputs_of(int input) const { return share(input, outputs, inputs); }

 private:
  static __device__ Range share(int i, const Divisor<Index>& from, const Divisor<Index>& to) {
    const Index begin = static_cast<Index>(i) * from.value();
    return {static_cast<int>(to.quotient(begin)), static_cast<int>(to.quotient(begin + from.value() + to.value() - 1))};
  }
};

/// The largest number that an adaptive pool divides.
inline std::int64_t largest_spread(const AdaptivePool2d& sizes) {
  return std::max((sizes.H + 1) * (sizes.OH + 1), (sizes.W + 1) * (sizes.OW + 1));
}

/// Splits a flat index over [images, rows, columns, packs of channels], so that adjacent threads have adjacent
/// channels.
template <class Index>
struct Tiles {
  Divisor<Index> packs, columns, rows;
  struct At {
    std::int64_t image;
    int row, column, channel;
  };
  Tiles(std::int64_t tile_rows, std::int64_t tile_columns, std::int64_t channel_packs)
      : packs(channel_packs), columns(tile_columns), rows(tile_rows) {}
  template <int V>
  __device__ At split(Index i) const {
    const int pack = static_cast<int>(packs.split(i)), column = static_cast<int>(columns.split(i));
    const int row = static_cast<int>(rows.split(i));
    return {static_cast<std::int64_t>(i), row, column, pack * V};
  }
};

/// The nearest position inside.
__device__ inline int clamped(int at, int size) { return min(max(at, 0), size - 1); }

/// The location of an image's packs.
struct Plane {
  int height, width;
  std::int64_t channels;
  __device__ bool has(int h, int w) const { return h >= 0 && h < height && w >= 0 && w < width; }
  __device__ std::int64_t offset(std::int64_t image, int h, int w, std::int64_t channel) const {
    return ((image * height + h) * width + w) * channels + channel;
  }
};

// ---- launches ----

template <class Sizes>
Plane inputs_of(const Sizes& p) {
  return {static_cast<int>(p.H), static_cast<int>(p.W), p.channels};
}
template <class Sizes>
Plane outputs_of(const Sizes& p) {
  return {static_cast<int>(p.OH), static_cast<int>(p.OW), p.channels};
}

/// How many adjacent channels one access has: as many as fit 16 bytes, or one; for 16-bit elements also half of them,
/// where fewer `results` would leave most threads of the card idle.
template <class T, class... Pointer>
int pack_for(std::int64_t results, std::int64_t channels, const Pointer*... pointers) {
  constexpr std::int64_t many = std::int64_t{1} << 21;
  const auto whole = [&]<int V>(std::integral_constant<int, V>) {
    return channels % V == 0 && (aligned<V>(pointers) && ...);
  };
  if (results >= many && whole(std::integral_constant<int, pack_size<T>>{})) return pack_size<T>;
  return whole(std::integral_constant<int, pack_of_registers<T>>{}) ? pack_of_registers<T> : 1;
}

/// Calls `function(pack size)`.
template <class T, class Function>
void with_pack(int pack, Function function) {
  if (pack == pack_size<T>) return function(std::integral_constant<int, pack_size<T>>{});
  if constexpr (pack_of_registers<T> != pack_size<T>)
    if (pack == pack_of_registers<T>) return function(std::integral_constant<int, pack_of_registers<T>>{});
  function(std::integral_constant<int, 1>{});
}

/// Calls `function(pack size, index)` for one thread per pack of [planes, rows, columns]; `largest` is another number
/// to divide.
template <class T, class Function>
void with_packs(std::int64_t planes, std::int64_t rows, std::int64_t columns, int pack, std::int64_t largest,
                Function function) {
  const std::int64_t n = planes * rows * columns;
  if (pack > 1 && std::max(n / pack, largest) < (std::int64_t{1} << 31))
    with_pack<T>(pack, [&](auto V) { function(V, std::uint32_t{}); });
  else
    with_index(std::max(n, largest), [&](auto zero) { function(std::integral_constant<int, 1>{}, zero); });
}

inline Grid looping_grid(std::int64_t n) {
  const unsigned threads = threads_for(n);
  return Grid(blocks_for(n, threads), threads);
}
/// One thread per item.
inline Grid whole_grid(std::int64_t n) {
  const unsigned threads = threads_for(n);
  return Grid(static_cast<unsigned>(ceil_div(n, threads)), threads);
}

/// Whether each output is the mean of a plane.
inline bool one_per_plane(const Pool2d& p) {
  return p.OH == 1 && p.OW == 1 && p.KH == p.H && p.KW == p.W && p.pad_h == 0 && p.pad_w == 0;
}
inline bool one_per_plane(const AdaptivePool2d& p) { return p.OH == 1 && p.OW == 1; }

/// Whether the kernels for usual windows can count this in 32 bits.
inline bool small(const Pool2d& p) {
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  const std::int64_t area = (p.H + p.KH) * (p.W + p.KW);
  return p.planes * area < limit && p.channels * area < limit;
}

// ---- slots of kernels::Pooling (pooling_backward.cu) ----

template <class T>
void max_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const std::uint8_t* index,
                         const Pool2d& sizes);
template <class T>
void avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const Pool2d& sizes);
template <class T>
void adaptive_avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const AdaptivePool2d& sizes);

}  // namespace tern::cuda
