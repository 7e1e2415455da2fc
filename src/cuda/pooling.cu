// Pooling, forward. A thread computes a few outputs down a column, so that rows shared by overlapping windows are
// loaded and reduced once.

#include "cuda/cuda.hpp"
#include "cuda/pooling.cuh"

namespace tern::cuda {
namespace {

// ---- how a pool combines the values of a window ----

template <bool Indexed, int V, class T>
struct LargestOf {
  static constexpr bool repeats_edges = true;  // repeating an element of the window changes no maximum
  T* out;
  std::uint8_t* index;
  using S = Scalar<T>;
  struct Row {
    S best[V];
    int winner[V];
  };

  /// The first maximum of a window's row, whose element kw is values[kw]; elements outside the plane repeat the nearest
  /// inside, and `inside` is the first kw inside.
  template <int K>
  __device__ Row row(const Pack<S, V> (&values)[K], int inside) const {
    Row row;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      row.best[lane] = values[0].value[lane];
      row.winner[lane] = inside;
#pragma unroll
      for (int kw = 1; kw < K; ++kw) {
        if (!beats(values[kw].value[lane], row.best[lane])) continue;
        row.best[lane] = values[kw].value[lane];
        row.winner[lane] = kw;
      }
    }
    return row;
  }
  /// Adds row kh of a window after those above it; `outside` rows at its top are outside the plane.
  template <int K>
  __device__ void take(Row& window, const Row& row, int kh, int outside) const {
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      if (kh > 0 && !beats(row.best[lane], window.best[lane])) continue;
      window.best[lane] = row.best[lane];
      window.winner[lane] = row.winner[lane] + (kh > 0 ? kh : outside) * K;
    }
  }
  template <class Sizes>
  __device__ void store_window(const Row& window, std::int64_t offset, const Sizes&, int, int) const {
    Pack<S, V> values;
    Pack<std::uint8_t, V> winners;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      values.value[lane] = window.best[lane];
      winners.value[lane] = static_cast<std::uint8_t>(window.winner[lane]);
    }
    store<V>(out + offset, values);
    if (Indexed) store<V>(index + offset, winners);
  }
};

template <int V, class T>
struct AverageOf {
  static constexpr bool repeats_edges = false;
  T* out;
  using S = Scalar<T>;
  using Row = Pack<S, V>;

  template <int K>
  __device__ Row row(const Pack<S, V> (&values)[K], int) const {
    Row row = values[0];
#pragma unroll
    for (int kw = 1; kw < K; ++kw) {
#pragma unroll
      for (int lane = 0; lane < V; ++lane) row.value[lane] += values[kw].value[lane];
    }
    return row;
  }
  template <int K>
  __device__ void take(Row& window, const Row& row, int kh, int) const {
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      window.value[lane] = kh > 0 ? window.value[lane] + row.value[lane] : row.value[lane];
  }
  template <class Sizes>
  __device__ void store_window(const Row& window, std::int64_t offset, const Sizes& p, int oh, int ow) const {
    const S divisor = p.template divisor<S>(oh, ow);
    Pack<S, V> values;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) values.value[lane] = window.value[lane] / divisor;
    store<V>(out + offset, values);
  }
};

// ---- kernels ----

/// Usual windows: a thread walks down `Strip` outputs of a column, and each row of inputs is read and reduced once.
template <int K, int S, int Strip, int V, class T, class Pool>
__global__ void __launch_bounds__(256) strips_kernel(std::uint32_t n, Tiles<std::uint32_t> tiles, Windows<K, S> p,
                                                     Plane from, Plane to, Pool pool, const T* __restrict__ in) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const auto at = tiles.template split<V>(i);
  const int top = at.row * Strip * S - p.pad_h, left = at.column * S - p.pad_w;
  const int channels = static_cast<int>(from.channels);  // an image has fewer than 2^31 elements here
  const T* const image = in + from.offset(at.image, 0, 0, at.channel);
  int columns[K];
#pragma unroll
  for (int kw = 0; kw < K; ++kw) columns[kw] = clamped(left + kw, from.width) * channels;
  begin_kernel();
  if (i >= n) return;
  typename Pool::Row window[Strip];
#pragma unroll
  for (int r = 0; r < (Strip - 1) * S + K; ++r) {
    const int h = top + r;
    const T* const line = image + clamped(h, from.height) * from.width * channels;
    Pack<Scalar<T>, V> values[K];
#pragma unroll
    for (int kw = 0; kw < K; ++kw) {
      values[kw] = {};
      if (Pool::repeats_edges || from.has(h, left + kw)) values[kw] = load<V>(line + columns[kw]);
    }
    const auto row = pool.template row<K>(values, max(-left, 0));
#pragma unroll
    for (int output = 0; output < Strip; ++output) {
      const int kh = r - output * S, oh = at.row * Strip + output;
      if (kh < 0 || kh >= K) continue;
      pool.template take<K>(window[output], row, kh, max(-h, 0));
      if (kh == K - 1 && oh < to.height)
        pool.store_window(window[output], to.offset(at.image, oh, at.column, at.channel), p, oh, at.column);
    }
  }
}

/// Any windows, one output at a time.
template <int V, class T, class Index>
__global__ void max_pool2d_kernel(Index n, Tiles<Index> tiles, Windows<0, 0> p, Plane from, Plane to, T* out,
                                  std::uint8_t* index, const T* in) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = tiles.template split<V>(i);
    using S = Scalar<T>;
    Pack<S, V> best;
    Pack<std::uint8_t, V> winner{};
#pragma unroll
    for (int lane = 0; lane < V; ++lane) best.value[lane] = -infinity<S>();
    bool first = true;
    for (int kh = 0; kh < p.KH(); ++kh) {
      for (int kw = 0; kw < p.KW(); ++kw) {
        const int h = at.row * p.stride_h() - p.pad_h + kh * p.dilation_h;
        const int w = at.column * p.stride_w() - p.pad_w + kw * p.dilation_w;
        if (!from.has(h, w)) continue;
        const auto values = load<V>(in + from.offset(at.image, h, w, at.channel));
#pragma unroll
        for (int lane = 0; lane < V; ++lane) {
          if (!first && !beats(values.value[lane], best.value[lane])) continue;
          best.value[lane] = values.value[lane];
          winner.value[lane] = static_cast<std::uint8_t>(kh * p.KW() + kw);
        }
        first = false;
      }
    }
    const std::int64_t output = to.offset(at.image, at.row, at.column, at.channel);
    store<V>(out + output, best);
    if (index != nullptr) store<V>(index + output, winner);
  }
}

template <int V, class T, class Index>
__global__ void avg_pool2d_kernel(Index n, Tiles<Index> tiles, Windows<0, 0> p, Plane from, Plane to, T* out,
                                  const T* in) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = tiles.template split<V>(i);
    const int top = at.row * p.stride_h() - p.pad_h, left = at.column * p.stride_w() - p.pad_w;
    Pack<Scalar<T>, V> sum{};
    for (int h = max(top, 0); h < min(top + p.KH(), from.height); ++h) {
#pragma unroll 4
      for (int w = max(left, 0); w < min(left + p.KW(), from.width); ++w) {
        const auto values = load<V>(in + from.offset(at.image, h, w, at.channel));
#pragma unroll
        for (int lane = 0; lane < V; ++lane) sum.value[lane] += values.value[lane];
      }
    }
    const Scalar<T> divisor = p.template divisor<Scalar<T>>(at.row, at.column);
#pragma unroll
    for (int lane = 0; lane < V; ++lane) sum.value[lane] /= divisor;
    store<V>(out + to.offset(at.image, at.row, at.column, at.channel), sum);
  }
}

template <int V, class T, class Index>
__global__ void adaptive_avg_pool2d_kernel(Index n, Tiles<Index> tiles, Spread<Index> rows, Spread<Index> columns,
                                           Plane from, Plane to, T* out, const T* in) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = tiles.template split<V>(i);
    const auto from_h = rows.inputs_of(at.row), from_w = columns.inputs_of(at.column);
    const T* const inputs = in + from.offset(at.image, 0, 0, at.channel);
    Pack<Scalar<T>, V> sum{};
    for (int h = from_h.first; h < from_h.end; ++h) {
#pragma unroll 4
      for (int w = from_w.first; w < from_w.end; ++w) {
        const auto values = load<V>(inputs + from.offset(0, h, w, 0));
#pragma unroll
        for (int lane = 0; lane < V; ++lane) sum.value[lane] += values.value[lane];
      }
    }
    const auto divisor = static_cast<Scalar<T>>(std::int64_t{from_h.size()} * from_w.size());
#pragma unroll
    for (int lane = 0; lane < V; ++lane) sum.value[lane] /= divisor;
    store<V>(out + to.offset(at.image, at.row, at.column, at.channel), sum);
  }
}

/// One output per plane of few positions: blocks of packs of channels by interleaved parts of the plane.
inline constexpr int mean_packs = 16, mean_parts = 16;

template <int V, class T>
__global__ void __launch_bounds__(mean_packs* mean_parts)
    mean_kernel(Divisor<std::uint32_t> tiles, int area, std::int64_t channels, T* out, const T* __restrict__ in) {
  begin_kernel();
  __shared__ Pack<Scalar<T>, V> shared[mean_parts][mean_packs];
  std::uint32_t image = blockIdx.x;
  const std::int64_t channel = (static_cast<std::int64_t>(tiles.split(image)) * mean_packs + threadIdx.x) * V;
  Pack<Scalar<T>, V> sum{};
  if (channel < channels) {
    const T* const plane = in + image * area * channels + channel;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.y); i < area; i += mean_parts) {
      const auto values = load<V>(plane + i * channels);
#pragma unroll
      for (int lane = 0; lane < V; ++lane) sum.value[lane] += values.value[lane];
    }
  }
#pragma unroll
  for (unsigned half = mean_parts / 2; half > 0; half /= 2) {
    if (threadIdx.y >= half && threadIdx.y < 2 * half) shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y < half) {
      const auto other = shared[threadIdx.y + half][threadIdx.x];
#pragma unroll
      for (int lane = 0; lane < V; ++lane) sum.value[lane] += other.value[lane];
    }
  }
  if (threadIdx.y > 0 || channel >= channels) return;
#pragma unroll
  for (int lane = 0; lane < V; ++lane) sum.value[lane] /= static_cast<Scalar<T>>(area);
  store<V>(out + image * channels + channel, sum);
}

// ---- launches ----

/// Outputs of a thread down a column.
template <int S>
inline constexpr int strip = S < 3 ? 4 / S : 1;

template <int V, int K, int S, class T, class Pool>
void strips(Context& context, const Windows<K, S>& windows, const Pool& pool, const T* in, const Pool2d& p) {
  const std::int64_t rows = ceil_div(p.OH, strip<S>), n = p.planes / V * rows * p.OW;
  launch(context, whole_grid(n), strips_kernel<K, S, strip<S>, V, T, Pool>, static_cast<std::uint32_t>(n),
         Tiles<std::uint32_t>(rows, p.OW, p.channels / V), windows, inputs_of(p), outputs_of(p), pool, in);
}

// ---- the slots ----

template <class T>
void max_pool2d(Context& context, T* out, std::uint8_t* index, const T* in, const Pool2d& sizes) {
  const int pack = pack_for<T>(sizes.planes * sizes.OH * sizes.OW, sizes.channels, out, index, in);
  with_windows(sizes, [&]<int K, int S>(const Windows<K, S>& windows) {
    if constexpr (K > 0) {
      if (small(sizes))
        return with_pack<T>(pack, [&]<int V>(std::integral_constant<int, V>) {
          if (index != nullptr)
            strips<V>(context, windows, LargestOf<true, V, T>{out, index}, in, sizes);
          else
            strips<V>(context, windows, LargestOf<false, V, T>{out, index}, in, sizes);
        });
    }
    with_packs<T>(sizes.planes, sizes.OH, sizes.OW, pack, 0, [&]<int P>(std::integral_constant<int, P>, auto zero) {
      using Index = decltype(zero);
      const std::int64_t n = sizes.planes / P * sizes.OH * sizes.OW;
      launch(context, looping_grid(n), max_pool2d_kernel<P, T, Index>, static_cast<Index>(n),
             Tiles<Index>(sizes.OH, sizes.OW, sizes.channels / P), Windows<0, 0>(sizes), inputs_of(sizes),
             outputs_of(sizes), out, index, in);
    });
  });
}

/// One output per plane.
template <class T, class Sizes>
void mean_of_planes(Context& context, T* out, const T* in, const Sizes& sizes) {
  constexpr int V = pack_of_registers<T>;
  const std::int64_t area = sizes.H * sizes.W, images = sizes.planes / sizes.channels, channels = sizes.channels;
  const std::int64_t packs = channels / V;
  if (area > 1024 || packs < mean_packs || images * packs >= 1ll << 31 || pack_for<T>(0, channels, out, in) == 1)
    return reduce<T>(context, {.outer = images, .length = area, .inner = channels},
                     SumReducer<T>{out, true, static_cast<Scalar<T>>(area)}, Elements<T>{in});
  const std::int64_t tiles = ceil_div(packs, mean_packs);
  launch(context, Grid(static_cast<unsigned>(images * tiles), dim3(mean_packs, mean_parts)), mean_kernel<V, T>,
         Divisor<std::uint32_t>(tiles), static_cast<int>(area), channels, out, in);
}

template <class T>
void avg_pool2d(Context& context, T* out, const T* in, const Pool2d& sizes) {
  if (one_per_plane(sizes)) return mean_of_planes(context, out, in, sizes);
  const int pack = pack_for<T>(sizes.planes * sizes.OH * sizes.OW, sizes.channels, out, in);
  with_windows(sizes, [&]<int K, int S>(const Windows<K, S>& windows) {
    if constexpr (K > 0) {
      if (small(sizes))
        return with_pack<T>(pack, [&]<int V>(std::integral_constant<int, V>) {
          strips<V>(context, windows, AverageOf<V, T>{out}, in, sizes);
        });
    }
    with_packs<T>(sizes.planes, sizes.OH, sizes.OW, pack, 0, [&]<int P>(std::integral_constant<int, P>, auto zero) {
      using Index = decltype(zero);
      const std::int64_t n = sizes.planes / P * sizes.OH * sizes.OW;
      launch(context, looping_grid(n), avg_pool2d_kernel<P, T, Index>, static_cast<Index>(n),
             Tiles<Index>(sizes.OH, sizes.OW, sizes.channels / P), Windows<0, 0>(sizes), inputs_of(sizes),
             outputs_of(sizes), out, in);
    });
  });
}

template <class T>
void adaptive_avg_pool2d(Context& context, T* out, const T* in, const AdaptivePool2d& sizes) {
  if (one_per_plane(sizes)) return mean_of_planes(context, out, in, sizes);
  with_packs<T>(sizes.planes, sizes.OH, sizes.OW,
                pack_for<T>(sizes.planes * sizes.OH * sizes.OW, sizes.channels, out, in), largest_spread(sizes),
                [&]<int P>(std::integral_constant<int, P>, auto zero) {
                  using Index = decltype(zero);
                  const std::int64_t n = sizes.planes / P * sizes.OH * sizes.OW;
                  launch(context, looping_grid(n), adaptive_avg_pool2d_kernel<P, T, Index>, static_cast<Index>(n),
                         Tiles<Index>(sizes.OH, sizes.OW, sizes.channels / P), Spread<Index>(sizes.H, sizes.OH),
                         Spread<Index>(sizes.W, sizes.OW), inputs_of(sizes), outputs_of(sizes), out, in);
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
template kernels::Pooling<BFloat16> pooling<BFloat16>();
template kernels::Pooling<Float16> pooling<Float16>();

}  // namespace tern::cuda
