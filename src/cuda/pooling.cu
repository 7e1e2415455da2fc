#include "cuda/cuda.hpp"
#include "cuda/reduce.cuh"
#include "tern/kernels/pooling.hpp"

namespace tern::cuda {
namespace {

using kernels::AdaptivePool2d;
using kernels::Pool2d;

/// Splits a flat index over [planes, height, width].
template <class Index>
struct PlaneIndex {
  Divisor<Index> height, width;
  struct At {
    std::int64_t plane;
    int h, w;
  };
  PlaneIndex(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
  __device__ At split(Index i) const {
    const Index w = width.split(i), h = height.split(i);
    return {static_cast<std::int64_t>(i), static_cast<int>(h), static_cast<int>(w)};
  }
};

/// The sizes of one plane as the card counts them. `K` above 0: square windows of K elements at a stride of S without
/// dilation, known to the compiler; 0: as the sizes say.
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

  /// use(oh, ow, kh, kw) for each window that holds the input element (h, w), in row order, and its place there.
  template <class Use>
  __device__ void each_window(int h, int w, Use use) const {
    reach(h + pad_h, kernel_h, step_h, by_step_h, dilation_h, OH, [&](int oh, int kh) {
      reach(w + pad_w, kernel_w, step_w, by_step_w, dilation_w, OW, [&](int ow, int kw) { use(oh, ow, kh, kw); });
    });
  }

  /// What an average divides by in the window of output (oh, ow).
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
  /// The same along one dimension; `at` has the padding added.
  template <class Use>
  static __device__ void reach(int at, int kernel, int step, const Divisor<std::uint32_t>& by_step, int dilation,
                               int outputs, Use use) {
    if constexpr (K > 0) {
      constexpr int most = (K + S - 1) / S;
#pragma unroll
      for (int i = most - 1; i >= 0; --i) {
        const int output = at / S - i, position = at - output * S;
        if (output >= 0 && output < outputs && position < K) use(output, position);
      }
    } else {
      const int before = at - (kernel - 1) * dilation;
      const int first =
          before <= 0 ? 0 : static_cast<int>(by_step.quotient(static_cast<std::uint32_t>(before + step - 1)));
      const int last = min(static_cast<int>(by_step.quotient(static_cast<std::uint32_t>(at))), outputs - 1);
      for (int output = first; output <= last; ++output) {
        const int distance = at - output * step, position = dilation == 1 ? distance : distance / dilation;
        if (position * dilation == distance) use(output, position);
      }
    }
  }
};

template <int K, int S, class T, class Index>
__global__ void max_pool2d_kernel(Index n, PlaneIndex<Index> outputs, Windows<K, S> p, T* out, std::uint8_t* index,
                                  const T* in) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = outputs.split(i);
    const T* const plane = in + at.plane * p.H * p.W;
    const int top = at.h * p.stride_h() - p.pad_h, left = at.w * p.stride_w() - p.pad_w;
    T best = -infinity<T>();
    int winner = -1;
#pragma unroll
    for (int kh = 0; kh < p.KH(); ++kh) {
      const int h = top + kh * (K > 0 ? 1 : p.dilation_h);
      if (h < 0 || h >= p.H) continue;
#pragma unroll
      for (int kw = 0; kw < p.KW(); ++kw) {
        const int w = left + kw * (K > 0 ? 1 : p.dilation_w);
        if (w < 0 || w >= p.W) continue;
        const T value = plane[static_cast<std::int64_t>(h) * p.W + w];
        if (winner < 0 || value > best || (isnan(value) && !isnan(best))) {
          best = value;
          winner = kh * p.KW() + kw;
        }
      }
    }
    out[i] = best;
    if (index != nullptr) index[i] = static_cast<std::uint8_t>(max(winner, 0));
  }
}

/// Each element of the input gathers from the windows that hold it.
template <int K, int S, class T, class Index>
__global__ void max_pool2d_backward_kernel(Index n, PlaneIndex<Index> inputs, Windows<K, S> p, T* grad_in,
                                           const T* grad_out, const std::uint8_t* index) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = inputs.split(i);
    const std::int64_t plane = at.plane * p.OH * p.OW;
    T sum = 0;
    p.each_window(at.h, at.w, [&](int oh, int ow, int kh, int kw) {
      const std::int64_t output = plane + static_cast<std::int64_t>(oh) * p.OW + ow;
      if (index[output] == kh * p.KW() + kw) sum += grad_out[output];
    });
    grad_in[i] = sum;
  }
}

template <int K, int S, class T, class Index>
__global__ void avg_pool2d_kernel(Index n, PlaneIndex<Index> outputs, Windows<K, S> p, T* out, const T* in) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = outputs.split(i);
    const T* const plane = in + at.plane * p.H * p.W;
    const int top = at.h * p.stride_h() - p.pad_h, left = at.w * p.stride_w() - p.pad_w;
    T sum = 0;
#pragma unroll
    for (int kh = 0; kh < p.KH(); ++kh) {
      if (top + kh < 0 || top + kh >= p.H) continue;
#pragma unroll
      for (int kw = 0; kw < p.KW(); ++kw) {
        if (left + kw < 0 || left + kw >= p.W) continue;
        sum += plane[static_cast<std::int64_t>(top + kh) * p.W + left + kw];
      }
    }
    out[i] = sum / p.template divisor<T>(at.h, at.w);
  }
}

template <int K, int S, class T, class Index>
__global__ void avg_pool2d_backward_kernel(Index n, PlaneIndex<Index> inputs, Windows<K, S> p, T* grad_in,
                                           const T* grad_out) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = inputs.split(i);
    const T* const plane = grad_out + at.plane * p.OH * p.OW;
    T sum = 0;
    p.each_window(at.h, at.w, [&](int oh, int ow, int, int) {
      sum += plane[static_cast<std::int64_t>(oh) * p.OW + ow] / p.template divisor<T>(oh, ow);
    });
    grad_in[i] = sum;
  }
}

/// What the element (row, column) of the 2 x 2 window of an output gets.
template <class T>
struct MaxShare {
  const T* grad_out;
  const std::uint8_t* index;
  struct Window {
    T gradient;
    int winner;
    __device__ T operator()(int row, int column) const { return winner == 2 * row + column ? gradient : T(0); }
  };
  __device__ Window at(std::int64_t output, int, int) const { return {grad_out[output], index[output]}; }
};
template <class T>
struct AverageShare {
  const T* grad_out;
  struct Window {
    T share;
    __device__ T operator()(int, int) const { return share; }
  };
  __device__ Window at(std::int64_t output, int rows, int columns) const {
    return {grad_out[output] / static_cast<T>(rows * columns)};
  }
};

/// The backward pass of 2 x 2 windows side by side: a thread per window writes its four elements. Elements behind the
/// last window get 0. `Paired`: two neighbours go in one access.
template <bool Paired, class T, class Index, class Share>
__global__ void side_by_side_backward_kernel(Index n, PlaneIndex<Index> windows, int H, int W, int OH, int OW,
                                             T* grad_in, Share share) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = windows.split(i);
    const int rows = min(2, H - 2 * at.h), columns = min(2, W - 2 * at.w);
    typename Share::Window window{};
    const bool inside = at.h < OH && at.w < OW;
    if (inside) window = share.at((at.plane * OH + at.h) * OW + at.w, rows, columns);
    T* const corner = grad_in + (at.plane * H + 2 * at.h) * W + 2 * at.w;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if (row >= rows) break;
      const Pack<T, 2> pair{inside ? window(row, 0) : T(0), inside ? window(row, 1) : T(0)};
      if (Paired) {
        store<2>(corner + static_cast<std::int64_t>(row) * W, pair);
      } else {
        corner[static_cast<std::int64_t>(row) * W] = pair.value[0];
        if (columns == 2) corner[static_cast<std::int64_t>(row) * W + 1] = pair.value[1];
      }
    }
  }
}

bool side_by_side(const Pool2d& p) {
  return p.KH == 2 && p.KW == 2 && p.stride_h == 2 && p.stride_w == 2 && p.pad_h == 0 && p.pad_w == 0 &&
         p.dilation_h == 1 && p.dilation_w == 1;
}

/// Along one dimension of an adaptive pool: the inputs of an output, or the outputs that an input belongs to.
struct Cover {
  std::int64_t first, end;
  __device__ static Cover inputs(std::int64_t output, std::int64_t from, std::int64_t to) {
    return {output * from / to, ((output + 1) * from + to - 1) / to};
  }
  __device__ static Cover outputs(std::int64_t input, std::int64_t from, std::int64_t to) {
    return inputs(input, to, from);
  }
  __device__ std::int64_t size() const { return end - first; }
};

template <class T, class Index>
__global__ void adaptive_avg_pool2d_kernel(Index n, PlaneIndex<Index> outputs, AdaptivePool2d p, T* out, const T* in) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = outputs.split(i);
    const Cover rows = Cover::inputs(at.h, p.H, p.OH), columns = Cover::inputs(at.w, p.W, p.OW);
    const T* const plane = in + at.plane * p.H * p.W;
    T sum = 0;
    for (std::int64_t h = rows.first; h < rows.end; ++h) {
      for (std::int64_t w = columns.first; w < columns.end; ++w) sum += plane[h * p.W + w];
    }
    out[i] = sum / static_cast<T>(rows.size() * columns.size());
  }
}

template <class T, class Index>
__global__ void adaptive_avg_pool2d_backward_kernel(Index n, PlaneIndex<Index> inputs, AdaptivePool2d p, T* grad_in,
                                                    const T* grad_out) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = inputs.split(i);
    const Cover rows = Cover::outputs(at.h, p.H, p.OH), columns = Cover::outputs(at.w, p.W, p.OW);
    const T* const plane = grad_out + at.plane * p.OH * p.OW;
    T sum = 0;
    for (std::int64_t oh = rows.first; oh < rows.end; ++oh) {
      const std::int64_t height = Cover::inputs(oh, p.H, p.OH).size();
      for (std::int64_t ow = columns.first; ow < columns.end; ++ow)
        sum += plane[oh * p.OW + ow] / static_cast<T>(height * Cover::inputs(ow, p.W, p.OW).size());
    }
    grad_in[i] = sum;
  }
}

/// Calls `function(windows)` with window and stride as constants where they are usual ones.
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
  else
    function(Windows<0, 0>(sizes));
}

Grid grid_for(std::int64_t n) {
  const unsigned threads = threads_for(n);
  return Grid(blocks_for(n, threads), threads);
}

template <class T, class Share>
void side_by_side_backward(Context& context, T* grad_in, const Pool2d& sizes, const Share& share) {
  const std::int64_t rows = ceil_div(sizes.H, 2), columns = ceil_div(sizes.W, 2), n = sizes.planes * rows * columns;
  const bool paired = sizes.W % 2 == 0 && aligned<2>(grad_in);
  with_index(n, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, grid_for(n),
           paired ? side_by_side_backward_kernel<true, T, Index, Share>
                  : side_by_side_backward_kernel<false, T, Index, Share>,
           static_cast<Index>(n), PlaneIndex<Index>(rows, columns), static_cast<int>(sizes.H),
           static_cast<int>(sizes.W), static_cast<int>(sizes.OH), static_cast<int>(sizes.OW), grad_in, share);
  });
}

// ---- the slots ----

template <class T>
void max_pool2d(Context& context, T* out, std::uint8_t* index, const T* in, const Pool2d& sizes) {
  const std::int64_t n = sizes.planes * sizes.OH * sizes.OW;
  with_windows(sizes, [&]<int K, int S>(const Windows<K, S>& windows) {
    with_index(n, [&](auto zero) {
      using Index = decltype(zero);
      launch(context, grid_for(n), max_pool2d_kernel<K, S, T, Index>, static_cast<Index>(n),
             PlaneIndex<Index>(sizes.OH, sizes.OW), windows, out, index, in);
    });
  });
}

template <class T>
void max_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const std::uint8_t* index,
                         const Pool2d& sizes) {
  if (side_by_side(sizes)) return side_by_side_backward(context, grad_in, sizes, MaxShare<T>{grad_out, index});
  const std::int64_t n = sizes.planes * sizes.H * sizes.W;
  with_windows(sizes, [&]<int K, int S>(const Windows<K, S>& windows) {
    with_index(n, [&](auto zero) {
      using Index = decltype(zero);
      launch(context, grid_for(n), max_pool2d_backward_kernel<K, S, T, Index>, static_cast<Index>(n),
             PlaneIndex<Index>(sizes.H, sizes.W), windows, grad_in, grad_out, index);
    });
  });
}

template <class T>
void avg_pool2d(Context& context, T* out, const T* in, const Pool2d& sizes) {
  const std::int64_t n = sizes.planes * sizes.OH * sizes.OW;
  with_windows(sizes, [&]<int K, int S>(const Windows<K, S>& windows) {
    with_index(n, [&](auto zero) {
      using Index = decltype(zero);
      launch(context, grid_for(n), avg_pool2d_kernel<K, S, T, Index>, static_cast<Index>(n),
             PlaneIndex<Index>(sizes.OH, sizes.OW), windows, out, in);
    });
  });
}

template <class T>
void avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const Pool2d& sizes) {
  if (side_by_side(sizes)) return side_by_side_backward(context, grad_in, sizes, AverageShare<T>{grad_out});
  const std::int64_t n = sizes.planes * sizes.H * sizes.W;
  with_windows(sizes, [&]<int K, int S>(const Windows<K, S>& windows) {
    with_index(n, [&](auto zero) {
      using Index = decltype(zero);
      launch(context, grid_for(n), avg_pool2d_backward_kernel<K, S, T, Index>, static_cast<Index>(n),
             PlaneIndex<Index>(sizes.H, sizes.W), windows, grad_in, grad_out);
    });
  });
}

template <class T>
void adaptive_avg_pool2d(Context& context, T* out, const T* in, const AdaptivePool2d& sizes) {
  const std::int64_t n = sizes.planes * sizes.OH * sizes.OW;
  if (sizes.OH == 1 && sizes.OW == 1) {
    const std::int64_t area = sizes.H * sizes.W;
    return reduce<T>(context, {.outer = sizes.planes, .length = area}, SumReducer<T>{out, true, static_cast<T>(area)},
                     Elements<T>{in});
  }
  with_index(n, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, grid_for(n), adaptive_avg_pool2d_kernel<T, Index>, static_cast<Index>(n),
           PlaneIndex<Index>(sizes.OH, sizes.OW), sizes, out, in);
  });
}

template <class T>
void adaptive_avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const AdaptivePool2d& sizes) {
  const std::int64_t n = sizes.planes * sizes.H * sizes.W;
  with_index(n, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, grid_for(n), adaptive_avg_pool2d_backward_kernel<T, Index>, static_cast<Index>(n),
           PlaneIndex<Index>(sizes.H, sizes.W), sizes, grad_in, grad_out);
  });
}

}  // namespace

template <class T>
kernels::Pooling<T> pooling() {
  return {.max_pool2d = max_pool2d<T>,
          .max_pool2d_backward = max_pool2d_backward<T>,
          .avg_pool2d = avg_pool2d<T>,
          .avg_pool2d_backward = avg_pool2d_backward<T>,
          .adaptive_avg_pool2d = adaptive_avg_pool2d<T>,
          .adaptive_avg_pool2d_backward = adaptive_avg_pool2d_backward<T>};
}
template kernels::Pooling<float> pooling<float>();
template kernels::Pooling<double> pooling<double>();

}  // namespace tern::cuda
