// Pooling, backward. Every input gathers from the windows that contain it, so nothing is added atomically. A thread has
// a tile of inputs, so that a window's gradient is loaded once for several of them.

#include "cuda/pooling.cuh"

namespace tern::cuda {
namespace {

// ---- a window's contribution ----

/// The winners of V adjacent channels by words of four, and a comparison with them without unpacking.
template <int V>
struct Winners {
  using Word = std::conditional_t<V >= 4, std::uint32_t, std::conditional_t<V == 2, std::uint16_t, std::uint8_t>>;
  static constexpr int words = V > 4 ? V / 4 : 1;
  std::uint32_t word[words] = {};
  static __device__ Winners at(const std::uint8_t* index) {
    const auto& from = *reinterpret_cast<const Pack<Word, words>*>(index);
    Winners winners;
#pragma unroll
    for (int i = 0; i < words; ++i) winners.word[i] = from.value[i];
    return winners;
  }
  __device__ bool equal(int lane, int position) const {
    const std::uint32_t apart = word[lane / 4] ^ (static_cast<std::uint32_t>(position) * 0x01010101u);
    return (apart & (0xffu << (8 * (lane % 4)))) == 0;
  }
};

/// The gradients of a window's inputs: the window's gradient where they won.
template <int V, class T>
struct MaxShare {
  const T* __restrict__ grad_out;
  const std::uint8_t* __restrict__ index;
  struct Window {
    Pack<Scalar<T>, V> gradient{};
    Winners<V> winner{};
    template <class Sizes>
    __device__ void finish(const Sizes&, int, int) {}
    __device__ void give(Pack<Scalar<T>, V>& sum, int position) const {
#pragma unroll
      for (int lane = 0; lane < V; ++lane) {
        if (winner.equal(lane, position)) sum.value[lane] += gradient.value[lane];
      }
    }
  };
  __device__ MaxShare from(std::int64_t offset) const { return {grad_out + offset, index + offset}; }
  template <class Offset>
  __device__ Window read(Offset offset) const {
    return {load<V>(grad_out + offset), Winners<V>::at(index + offset)};
  }
};

/// Each input gets the same share.
template <int V, class T>
struct AverageShare {
  const T* __restrict__ grad_out;
  struct Window {
    Pack<Scalar<T>, V> part{};
    template <class Sizes>
    __device__ void finish(const Sizes& p, int oh, int ow) {
      const Scalar<T> factor = 1 / p.template divisor<Scalar<T>>(oh, ow);
#pragma unroll
      for (int lane = 0; lane < V; ++lane) part.value[lane] *= factor;
    }
    __device__ void give(Pack<Scalar<T>, V>& sum, int) const {
#pragma unroll
      for (int lane = 0; lane < V; ++lane) sum.value[lane] += part.value[lane];
    }
  };
  __device__ AverageShare from(std::int64_t offset) const { return {grad_out + offset}; }
  template <class Offset>
  __device__ Window read(Offset offset) const {
    return {load<V>(grad_out + offset)};
  }
};

// ---- kernels ----

/// Usual windows: a thread gathers for Height x Width inputs, multiples of the stride, from every window over them.
/// `pairs`: for planes, two adjacent inputs go in one access.
template <int K, int S, int Height, int Width, int V, class T, class Share>
__global__ void __launch_bounds__(256)
    gather_tiles_kernel(std::uint32_t n, Tiles<std::uint32_t> tiles, Windows<K, S> p, Plane from, Plane to, bool pairs,
                        T* __restrict__ grad_in, Share share) {
  constexpr int before = (K - 1) / S;  // windows that begin above the tile and extend into it
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const auto at = tiles.template split<V>(i);
  // Includes the padding, so that tiles begin where windows do.
  const int top = (at.row + p.pad_h / Height) * Height, left = (at.column + p.pad_w / Width) * Width;
  const int channels = static_cast<int>(from.channels);  // an image has fewer than 2^31 elements here
  const Share image = share.from(to.offset(at.image, 0, 0, at.channel));
  begin_kernel();
  if (i >= n) return;
  Pack<Scalar<T>, V> sum[Height][Width] = {};
#pragma unroll
  for (int down = -before; down < Height / S; ++down) {
    const int oh = top / S + down;
    typename Share::Window windows[before + Width / S];
#pragma unroll
    for (int right = -before; right < Width / S; ++right) {
      const int ow = left / S + right;
      if (to.has(oh, ow)) windows[before + right] = image.read((oh * to.width + ow) * channels);
    }
#pragma unroll
    for (int right = -before; right < Width / S; ++right) {
      windows[before + right].finish(p, oh, left / S + right);
#pragma unroll
      for (int row = 0; row < Height; ++row) {
#pragma unroll
        for (int column = 0; column < Width; ++column) {
          const int kh = row - down * S, kw = column - right * S;
          if (kh >= 0 && kh < K && kw >= 0 && kw < K) windows[before + right].give(sum[row][column], kh * K + kw);
        }
      }
    }
  }
  T* const inputs = grad_in + from.offset(at.image, 0, 0, at.channel);
#pragma unroll
  for (int row = 0; row < Height; ++row) {
    if constexpr (V == 1 && Width == 2) {
      if (pairs) {
        const int h = top + row - p.pad_h, w = left - p.pad_w;
        if (from.has(h, w))
          store<2>(inputs + h * from.width + w, Pack<Scalar<T>, 2>{sum[row][0].value[0], sum[row][1].value[0]});
        continue;
      }
    }
#pragma unroll
    for (int column = 0; column < Width; ++column) {
      const int h = top + row - p.pad_h, w = left + column - p.pad_w;
      if (from.has(h, w)) store<V>(inputs + (h * from.width + w) * channels, sum[row][column]);
    }
  }
}

/// Any windows, one input at a time.
template <int V, class T, class Index, class Share>
__global__ void gather_kernel(Index n, Tiles<Index> tiles, Windows<0, 0> p, Plane to, T* grad_in, Plane from,
                              Share share) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = tiles.template split<V>(i);
    Pack<Scalar<T>, V> sum{};
    p.each_window(at.row, at.column, [&](int oh, int ow, int kh, int kw) {
      auto window = share.read(to.offset(at.image, oh, ow, at.channel));
      window.finish(p, oh, ow);
      window.give(sum, kh * p.KW() + kw);
    });
    store<V>(grad_in + from.offset(at.image, at.row, at.column, at.channel), sum);
  }
}

template <int V, class T, class Index>
__global__ void adaptive_avg_pool2d_backward_kernel(Index n, Tiles<Index> tiles, Spread<Index> rows,
                                                    Spread<Index> columns, Plane from, Plane to, T* grad_in,
                                                    const T* grad_out) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    const auto at = tiles.template split<V>(i);
    const auto to_h = rows.outputs_of(at.row), to_w = columns.outputs_of(at.column);
    const T* const outputs = grad_out + to.offset(at.image, 0, 0, at.channel);
    Pack<Scalar<T>, V> sum{};
    for (int oh = to_h.first; oh < to_h.end; ++oh) {
      const std::int64_t height = rows.inputs_of(oh).size();
      for (int ow = to_w.first; ow < to_w.end; ++ow) {
        const Scalar<T> factor = 1 / static_cast<Scalar<T>>(height * columns.inputs_of(ow).size());
        const auto values = load<V>(outputs + to.offset(0, oh, ow, 0));
#pragma unroll
        for (int lane = 0; lane < V; ++lane) sum.value[lane] += values.value[lane] * factor;
      }
    }
    store<V>(grad_in + from.offset(at.image, at.row, at.column, at.channel), sum);
  }
}

/// One output per plane. A thread writes a pack at a few positions, or one element.
template <int V>
inline constexpr int spread_positions = V > 1 ? 8 : 1;

template <int V, class T>
__global__ void spread_mean_kernel(std::uint32_t n, Tiles<std::uint32_t> tiles, int area, std::int64_t channels,
                                   T* grad_in, const T* grad_out) {
  begin_kernel();
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto at = tiles.template split<V>(i);
  auto values = load<V>(grad_out + at.image * channels + at.channel);
#pragma unroll
  for (int lane = 0; lane < V; ++lane) values.value[lane] /= static_cast<Scalar<T>>(area);
  T* const inputs = grad_in + at.image * area * channels + at.channel;
#pragma unroll
  for (int j = 0; j < spread_positions<V>; ++j) {
    const int position = at.column * spread_positions<V> + j;
    if (position < area) store<V>(inputs + position * channels, values);
  }
}

/// The same where a plane's elements are adjacent: packs of them.
template <int V, class T>
__global__ void spread_planes_kernel(std::uint32_t packs, Divisor<std::uint32_t> plane_packs, Scalar<T> area,
                                     T* grad_in, const T* grad_out) {
  begin_kernel();
  const auto step = static_cast<std::uint32_t>(global_threads());
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < packs; i += step) {
    const Scalar<T> share = widened(grad_out[plane_packs.quotient(i)]) / area;
    Pack<Scalar<T>, V> values;
#pragma unroll
    for (Scalar<T>& value : values.value) value = share;
    store<V>(grad_in + std::int64_t{i} * V, values);
  }
}

// ---- launches ----

/// Inputs of a thread. For planes, one column per thread keeps adjacent threads on adjacent elements.
template <int S>
inline constexpr int tile_height = S == 1 ? 4 : S;
template <int S, int V>
inline constexpr int tile_width = S > 1   ? S
                                  : V > 1 ? 2
                                          : 1;

template <int V, int K, int S, class T, class Share>
void gather_tiles(Context& context, const Windows<K, S>& windows, T* grad_in, const Share& share, const Pool2d& p) {
  constexpr int Height = tile_height<S>, Width = tile_width<S, V>;
  const std::int64_t rows = ceil_div(p.H + p.pad_h, Height) - p.pad_h / Height;
  const std::int64_t columns = ceil_div(p.W + p.pad_w, Width) - p.pad_w / Width, n = p.planes / V * rows * columns;
  const bool pairs = p.channels == 1 && p.W % 2 == 0 && p.pad_w % 2 == 0 && aligned<2>(grad_in);
  launch(context, whole_grid(n), gather_tiles_kernel<K, S, Height, Width, V, T, Share>, static_cast<std::uint32_t>(n),
         Tiles<std::uint32_t>(rows, columns, p.channels / V), windows, inputs_of(p), outputs_of(p), pairs, grad_in,
         share);
}

/// The backward pass of both kinds; share(pack size) returns a window's contribution.
template <class T, class MakeShare>
void gather(Context& context, T* grad_in, int pack, const Pool2d& sizes, const MakeShare& share) {
  with_windows(sizes, [&]<int K, int S>(const Windows<K, S>& windows) {
    if constexpr (K > 0) {
      if (small(sizes))
        return with_pack<T>(
            pack, [&](auto V) { gather_tiles<decltype(V)::value>(context, windows, grad_in, share(V), sizes); });
    }
    with_packs<T>(sizes.planes, sizes.H, sizes.W, pack, 0, [&]<int P>(std::integral_constant<int, P> V, auto zero) {
      using Index = decltype(zero);
      using Share = decltype(share(V));
      const std::int64_t n = sizes.planes / P * sizes.H * sizes.W;
      launch(context, looping_grid(n), gather_kernel<P, T, Index, Share>, static_cast<Index>(n),
             Tiles<Index>(sizes.H, sizes.W, sizes.channels / P), Windows<0, 0>(sizes), outputs_of(sizes), grad_in,
             inputs_of(sizes), share(V));
    });
  });
}

/// Whether this was one output per plane and is done.
template <class T, class Sizes>
bool spread_mean(Context& context, T* grad_in, const T* grad_out, const Sizes& sizes) {
  const std::int64_t area = sizes.H * sizes.W;
  if (!one_per_plane(sizes) || sizes.planes * area >= 1ll << 31) return false;
  if (constexpr int V = pack_size<T>; sizes.channels == 1 && area % V == 0 && aligned<V>(grad_in)) {
    const std::int64_t packs = sizes.planes * area / V;
    launch(context, Grid(blocks_for(packs), 256), spread_planes_kernel<V, T>, static_cast<std::uint32_t>(packs),
           Divisor<std::uint32_t>(area / V), static_cast<Scalar<T>>(area), grad_in, grad_out);
    return true;
  }
  with_pack<T>(pack_for<T>(sizes.planes * sizes.H * sizes.W, sizes.channels, grad_in, grad_out),
               [&]<int V>(std::integral_constant<int, V>) {
                 const std::int64_t parts = ceil_div(area, spread_positions<V>), n = sizes.planes / V * parts;
                 launch(context, whole_grid(n), spread_mean_kernel<V, T>, static_cast<std::uint32_t>(n),
                        Tiles<std::uint32_t>(1, parts, sizes.channels / V), static_cast<int>(area), sizes.channels,
                        grad_in, grad_out);
               });
  return true;
}

}  // namespace

// ---- the slots ----

template <class T>
void max_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const std::uint8_t* index,
                         const Pool2d& sizes) {
  gather(context, grad_in, pack_for<T>(sizes.planes * sizes.H * sizes.W, sizes.channels, grad_in, grad_out, index),
         sizes, [&]<int V>(std::integral_constant<int, V>) {
           return MaxShare<V, T>{grad_out, index};
         });
}

template <class T>
void avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const Pool2d& sizes) {
  if (spread_mean(context, grad_in, grad_out, sizes)) return;
  gather(context, grad_in, pack_for<T>(sizes.planes * sizes.H * sizes.W, sizes.channels, grad_in, grad_out), sizes,
         [&]<int V>(std::integral_constant<int, V>) { return AverageShare<V, T>{grad_out}; });
}

template <class T>
void adaptive_avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const AdaptivePool2d& sizes) {
  if (spread_mean(context, grad_in, grad_out, sizes)) return;
  with_packs<T>(
      sizes.planes, sizes.H, sizes.W, pack_for<T>(sizes.planes * sizes.H * sizes.W, sizes.channels, grad_in, grad_out),
      largest_spread(sizes), [&]<int P>(std::integral_constant<int, P>, auto zero) {
        using Index = decltype(zero);
        const std::int64_t n = sizes.planes / P * sizes.H * sizes.W;
        launch(context, looping_grid(n), adaptive_avg_pool2d_backward_kernel<P, T, Index>, static_cast<Index>(n),
               Tiles<Index>(sizes.H, sizes.W, sizes.channels / P), Spread<Index>(sizes.H, sizes.OH),
               Spread<Index>(sizes.W, sizes.OW), inputs_of(sizes), outputs_of(sizes), grad_in, grad_out);
      });
}

#define TERN_INSTANTIATE(T)                                                                      \
  template void max_pool2d_backward(Context&, T*, const T*, const std::uint8_t*, const Pool2d&); \
  template void avg_pool2d_backward(Context&, T*, const T*, const Pool2d&);                      \
  template void adaptive_avg_pool2d_backward(Context&, T*, const T*, const AdaptivePool2d&);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
TERN_INSTANTIATE(BFloat16)
TERN_INSTANTIATE(Float16)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda
