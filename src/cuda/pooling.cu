#include "cuda/cuda.hpp"
#include "cuda/pooling.cuh"

namespace tern::cuda {
namespace {

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

template <class T, class Index>
__global__ void adaptive_avg_pool2d_kernel(Index n, PlaneIndex<Index> outputs, Spread<Index> rows,
                                           Spread<Index> columns, std::int64_t H, std::int64_t W, T* out, const T* in) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = outputs.split(i);
    const auto from_h = rows.inputs_of(at.h), from_w = columns.inputs_of(at.w);
    const T* const plane = in + at.plane * H * W;
    T sum = 0;
    for (int h = from_h.first; h < from_h.end; ++h) {
      for (int w = from_w.first; w < from_w.end; ++w) sum += plane[h * W + w];
    }
    out[i] = sum / static_cast<T>(std::int64_t{from_h.size()} * from_w.size());
  }
}

template <class T, class Index>
__global__ void adaptive_avg_pool2d_backward_kernel(Index n, PlaneIndex<Index> inputs, Spread<Index> rows,
                                                    Spread<Index> columns, std::int64_t OH, std::int64_t OW, T* grad_in,
                                                    const T* grad_out) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = inputs.split(i);
    const auto to_h = rows.outputs_of(at.h), to_w = columns.outputs_of(at.w);
    const T* const plane = grad_out + at.plane * OH * OW;
    T sum = 0;
    for (int oh = to_h.first; oh < to_h.end; ++oh) {
      const std::int64_t height = rows.inputs_of(oh).size();
      for (int ow = to_w.first; ow < to_w.end; ++ow)
        sum += plane[oh * OW + ow] / static_cast<T>(height * columns.inputs_of(ow).size());
    }
    grad_in[i] = sum;
  }
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
  if (sizes.channels > 1) return channels_last::max_pool2d<T>(context, out, index, in, sizes);
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
  if (sizes.channels > 1) return channels_last::max_pool2d_backward<T>(context, grad_in, grad_out, index, sizes);
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
  if (sizes.channels > 1) return channels_last::avg_pool2d<T>(context, out, in, sizes);
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
  if (sizes.channels > 1) return channels_last::avg_pool2d_backward<T>(context, grad_in, grad_out, sizes);
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
  if (sizes.channels > 1) return channels_last::adaptive_avg_pool2d<T>(context, out, in, sizes);
  const std::int64_t n = sizes.planes * sizes.OH * sizes.OW;
  if (sizes.OH == 1 && sizes.OW == 1) {
    const std::int64_t area = sizes.H * sizes.W;
    return reduce<T>(context, {.outer = sizes.planes, .length = area}, SumReducer<T>{out, true, static_cast<T>(area)},
                     Elements<T>{in});
  }
  with_index(std::max(n, largest_spread(sizes)), [&](auto zero) {
    using Index = decltype(zero);
    launch(context, grid_for(n), adaptive_avg_pool2d_kernel<T, Index>, static_cast<Index>(n),
           PlaneIndex<Index>(sizes.OH, sizes.OW), Spread<Index>(sizes.H, sizes.OH), Spread<Index>(sizes.W, sizes.OW),
           sizes.H, sizes.W, out, in);
  });
}

template <class T>
void adaptive_avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const AdaptivePool2d& sizes) {
  if (sizes.channels > 1) return channels_last::adaptive_avg_pool2d_backward<T>(context, grad_in, grad_out, sizes);
  const std::int64_t n = sizes.planes * sizes.H * sizes.W;
  with_index(std::max(n, largest_spread(sizes)), [&](auto zero) {
    using Index = decltype(zero);
    launch(context, grid_for(n), adaptive_avg_pool2d_backward_kernel<T, Index>, static_cast<Index>(n),
           PlaneIndex<Index>(sizes.H, sizes.W), Spread<Index>(sizes.H, sizes.OH), Spread<Index>(sizes.W, sizes.OW),
           sizes.OH, sizes.OW, grad_in, grad_out);
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
