// Local response normalisation in both layouts. [N, area, C] is [N * area, C, 1], so the general kernels serve both.
// The usual window (5 channels, beta 0.75) has one kernel per layout that reads each element once and recomputes y.

#include "cuda/elementwise.cuh"
#include "cuda/local_response_norm.cuh"

namespace tern::cuda {
namespace {

using kernels::LocalResponseNorm;

/// Arrays [N, C, area].
template <class T>
struct Response {
  std::int64_t C, area;
  int size;
  T k, scale, beta;  ///< scale: alpha / size
  Response(const LocalResponseNorm& sizes, std::int64_t positions)
      : C(sizes.C),
        area(positions),
        size(static_cast<int>(sizes.size)),
        k(static_cast<T>(sizes.k)),
        scale(static_cast<T>(sizes.alpha / static_cast<double>(sizes.size))),
        beta(static_cast<T>(sizes.beta)) {}
};

// ---- the usual window ----

/// The sum over the window whose first channel is values[0].
template <class T>
__device__ T window_sum(const T* values) {
  return values[0] + values[1] + values[2] + values[3] + values[4];
}
/// The same for the squares.
template <class Sum, class T>
__device__ Sum window_squares(const T* values) {
  Sum squares[5];
#pragma unroll
  for (int i = 0; i < 5; ++i) squares[i] = static_cast<Sum>(values[i]) * static_cast<Sum>(values[i]);
  return window_sum(squares);
}

/// The square root of a number that is not subnormal: in float accurate to a unit in the last place, with a third of
/// the instructions.
__device__ inline float quick_root(float value) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(value));
  return root;
}
__device__ inline double quick_root(double value) { return ::sqrt(value); }

/// denominator^-0.75, in two factors since their product may leave T's range; within a few units in the last place.
template <class T>
struct UsualFactor {
  T root, fourth_root;  ///< denominator^-0.5 and ^-0.25
  /// For the middle channel of a window of x.
  __device__ UsualFactor(const Response<T>& p, const T* window) {
    const T denominator = p.k + p.scale * window_squares<T>(window);
    root = ::rsqrt(denominator);
    if (::isinf(denominator)) root = static_cast<T>(::rsqrt(p.k + p.scale * window_squares<double>(window)));
    fourth_root = quick_root(root);
  }
  __device__ T times(T value) const { return value * root * fourth_root; }
  /// The channel's term of the sum that its neighbours' gradients need.
  __device__ T share(T gradient, T x) const { return gradient * times(x) * root * root; }
};

/// The same for channels -2 ... V + 1 around a thread's own pack, from neighbouring lanes; 0 outside [0, C).
template <int V, class T>
__device__ void spread_over_lanes(T (&wide)[V + 4], const T (&own)[V], int channel, int channels) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < V + 4; ++i) {
    const int distance = (i - 2 + 4 * V) / V - 4, element = (i - 2 + 4 * V) % V;
    const T value = distance == 0 ? own[element] : __shfl_sync(0xffffffffu, own[element], lane + distance);
    wide[i] = channel + i - 2 >= 0 && channel + i - 2 < channels ? value : T(0);
  }
}

/// Channels last: a warp has 32 adjacent packs and writes those for which it also has the neighbours' neighbours.
template <int V>
inline constexpr int edge_lanes = (4 + V - 1) / V;

template <int V>
struct PackOfPosition {
  std::int64_t pack;
  int channel;
  bool inside, writes;
  __device__ PackOfPosition(std::int64_t warp, std::int64_t packs, const Divisor<std::uint32_t>& row_packs, int edge) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    pack = warp * (32 - 2 * edge) - edge + lane;
    inside = pack >= 0 && pack < packs;
    writes = inside && lane >= edge && lane < 32 - edge;
    auto rest = static_cast<std::uint32_t>(inside ? pack : 0);
    channel = static_cast<int>(row_packs.split(rest)) * V;
  }
};

/// Two packs per thread, for two loads in flight.
inline constexpr int packs_forward = 2;

template <int V, class T>
__global__ void lrn_last_kernel(std::int64_t packs, Divisor<std::uint32_t> row_packs, Response<Scalar<T>> p,
                                T* __restrict__ y, const T* __restrict__ x) {
  begin_kernel();
  constexpr int edge = (2 + V - 1) / V;
  Pack<Scalar<T>, V> values[packs_forward]{};
#pragma unroll
  for (int i = 0; i < packs_forward; ++i) {
    const PackOfPosition<V> at(global_thread() / 32 * packs_forward + i, packs, row_packs, edge);
    if (at.inside) values[i] = load<V>(x + at.pack * V);
  }
#pragma unroll
  for (int i = 0; i < packs_forward; ++i) {
    const PackOfPosition<V> at(global_thread() / 32 * packs_forward + i, packs, row_packs, edge);
    Scalar<T> wide[V + 4];
    spread_over_lanes<V>(wide, values[i].value, at.channel, static_cast<int>(p.C));
#pragma unroll
    for (int j = 0; j < V; ++j) values[i].value[j] = UsualFactor<Scalar<T>>(p, wide + j).times(wide[j + 2]);
    if (at.writes) store<V>(y + at.pack * V, values[i]);
  }
}

template <int V, class T>
__global__ void lrn_last_backward_kernel(std::int64_t packs, Divisor<std::uint32_t> row_packs, Response<Scalar<T>> p,
                                         T* grad_x, const T* grad_y, const T* x) {
  begin_kernel();
  const PackOfPosition<V> at(global_thread() / 32, packs, row_packs, edge_lanes<V>);
  Pack<Scalar<T>, V> values{}, gradients{};
  if (at.inside) {
    values = load<V>(x + at.pack * V);
    gradients = load<V>(grad_y + at.pack * V);
  }
  Scalar<T> own[V], wide[V + 4];
  spread_over_lanes<V>(wide, values.value, at.channel, static_cast<int>(p.C));
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const UsualFactor<Scalar<T>> factor(p, wide + j);
    own[j] = factor.share(gradients.value[j], values.value[j]);
    gradients.value[j] = factor.times(gradients.value[j]);
  }
  spread_over_lanes<V>(wide, own, at.channel, static_cast<int>(p.C));
#pragma unroll
  for (int j = 0; j < V; ++j) gradients.value[j] -= 2 * p.scale * p.beta * values.value[j] * window_sum(wide + j);
  if (at.writes) store<V>(grad_x + at.pack * V, gradients);
}

/// Channels first: a thread walks `slice` channels of a position, `step` at a time; adjacent threads have adjacent
/// positions.
inline constexpr int step = 8, walk_threads = 256;

struct Walks {
  std::uint32_t count;
  Divisor<std::uint32_t> area, slices;
  int slice;
};

template <class T>
__global__ void __launch_bounds__(walk_threads)
    lrn_first_kernel(Walks walks, Response<Scalar<T>> p, T* __restrict__ y, const T* __restrict__ x) {
  begin_kernel();
  std::uint32_t n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= walks.count) return;
  const std::uint32_t position = walks.area.split(n);
  const int first = static_cast<int>(walks.slices.split(n)) * walks.slice, C = static_cast<int>(p.C);
  const int end = min(first + walks.slice, C);
  const std::int64_t base = n * p.C * p.area + position;
  using S = Scalar<T>;
  S in[step + 4];  // channels c - 2 ... c + step + 1
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int c = first + j - 2;
    in[j] = c >= 0 && c < C ? widened(x[base + c * p.area]) : S(0);
  }
  for (int c = first; c < end; c += step) {
#pragma unroll
    for (int j = 0; j < step; ++j) in[j + 4] = c + j + 2 < C ? widened(x[base + (c + j + 2) * p.area]) : S(0);
#pragma unroll
    for (int j = 0; j < step; ++j) {
      if (c + j < end) put(y[base + (c + j) * p.area], UsualFactor<S>(p, in + j).times(in[j + 2]));
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) in[j] = in[j + step];
  }
}

template <class T>
__global__ void __launch_bounds__(walk_threads)
    lrn_first_backward_kernel(Walks walks, Response<Scalar<T>> p, T* __restrict__ grad_x, const T* __restrict__ grad_y,
                              const T* __restrict__ x) {
  begin_kernel();
  std::uint32_t n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= walks.count) return;
  const std::uint32_t position = walks.area.split(n);
  const int first = static_cast<int>(walks.slices.split(n)) * walks.slice, C = static_cast<int>(p.C);
  const int end = min(first + walks.slice, C);
  const std::int64_t base = n * p.C * p.area + position;
  // Of the channels c - 4 ... c + step + 3, c - 2 ... c + step + 1 and c ... c + step + 1. The step before the first
  // writes nothing and fills the values that are carried over.
  using S = Scalar<T>;
  S in[step + 8] = {}, shares[step + 4] = {}, direct[step + 2] = {};
  for (int c = first - step; c < end; c += step) {
    S gradients[step];
#pragma unroll
    for (int j = 0; j < step; ++j) {
      const int ahead = c + j + 4, middle = c + j + 2;
      in[j + 8] = ahead >= 0 && ahead < C ? widened(x[base + ahead * p.area]) : S(0);
      gradients[j] = middle >= 0 && middle < C ? widened(grad_y[base + middle * p.area]) : S(0);
    }
#pragma unroll
    for (int j = 0; j < step; ++j) {
      const UsualFactor<Scalar<T>> factor(p, in + j + 4);
      shares[j + 4] = factor.share(gradients[j], in[j + 6]);
      direct[j + 2] = factor.times(gradients[j]);
    }
#pragma unroll
    for (int j = 0; j < step; ++j) {
      if (c >= first && c + j < end)
        put(grad_x[base + (c + j) * p.area], direct[j] - 2 * p.scale * p.beta * in[j + 4] * window_sum(shares + j));
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) in[j] = in[j + step];
#pragma unroll
    for (int j = 0; j < 4; ++j) shares[j] = shares[j + step];
#pragma unroll
    for (int j = 0; j < 2; ++j) direct[j] = direct[j + step];
  }
}

// ---- any window ----

/// In double, whose range holds the squares.
template <class T>
__device__ double denominator_at(const Response<Scalar<T>>& p, const T* x, std::int64_t c) {
  const std::int64_t begin = c - p.size / 2;
  double sum = 0;
  for (std::int64_t j = max(begin, std::int64_t{0}); j < min(begin + p.size, p.C); ++j)
    sum += double{widened(x[j * p.area])} * double{widened(x[j * p.area])};
  return p.k + p.scale * sum;
}

template <class T>
__global__ void lrn_kernel(std::int64_t n, Response<Scalar<T>> p, T* y, const T* x) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < n; i += global_threads()) {
    const std::int64_t c = i / p.area % p.C;
    put(y[i], static_cast<Scalar<T>>(widened(x[i]) / ::pow(denominator_at(p, x + i - c * p.area, c), double{p.beta})));
  }
}

template <class T>
__global__ void lrn_backward_kernel(std::int64_t n, Response<Scalar<T>> p, T* grad_x, const T* grad_y, const T* x,
                                    const T* y) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < n; i += global_threads()) {
    const std::int64_t c = i / p.area % p.C, base = i - c * p.area;
    // The channels whose windows contain c.
    const std::int64_t begin = c + p.size / 2 - p.size + 1;
    double sum = 0;
    for (std::int64_t j = max(begin, std::int64_t{0}); j < min(begin + p.size, p.C); ++j)
      sum +=
          double{widened(grad_y[base + j * p.area])} * widened(y[base + j * p.area]) / denominator_at(p, x + base, j);
    put(grad_x[i], static_cast<Scalar<T>>(widened(grad_y[i]) / ::pow(denominator_at(p, x + base, c), double{p.beta}) -
                                          2 * double{p.scale} * p.beta * widened(x[i]) * sum));
  }
}

// ---- launches ----

/// Whether the kernels for the usual window can run this; 32 bits count their threads.
bool usual_window(const LocalResponseNorm& sizes) {
  return sizes.size == 5 && sizes.beta == 0.75 && sizes.N * sizes.C * sizes.area < (std::int64_t{1} << 30);
}

template <int V, class T, class... Pointer>
void over_positions(Context& context, const LocalResponseNorm& sizes, int edge, int packs_per_thread,
                    void (*kernel)(std::int64_t, Divisor<std::uint32_t>, Response<T>, Pointer...),
                    Pointer... pointers) {
  const std::int64_t packs = sizes.N * sizes.area * (sizes.C / V);
  launch(context,
         Grid(static_cast<unsigned>(ceil_div(ceil_div(packs, packs_per_thread * (32 - 2 * edge)) * 32, 128)), 128),
         kernel, packs, Divisor<std::uint32_t>(sizes.C / V), Response<T>(sizes, 1), pointers...);
}

template <class T, class... Pointer>
void walk_channels(Context& context, const LocalResponseNorm& sizes, void (*kernel)(Walks, Response<T>, Pointer...),
                   Pointer... pointers) {
  const std::int64_t positions = sizes.N * sizes.area;
  // Enough threads to fill the card, if slices of at least 4 steps allow it.
  const std::int64_t wanted =
      std::clamp<std::int64_t>(ceil_div(1 << 18, std::max<std::int64_t>(positions, 1)), 1, ceil_div(sizes.C, 4 * step));
  const std::int64_t slice = ceil_div(ceil_div(sizes.C, wanted), step) * step, slices = ceil_div(sizes.C, slice);
  const std::int64_t count = positions * slices;
  const Walks walks{.count = static_cast<std::uint32_t>(count),
                    .area = Divisor<std::uint32_t>(sizes.area),
                    .slices = Divisor<std::uint32_t>(slices),
                    .slice = static_cast<int>(slice)};
  launch(context, Grid(static_cast<unsigned>(ceil_div(count, walk_threads)), walk_threads), kernel, walks,
         Response<T>(sizes, sizes.area), pointers...);
}

}  // namespace

template <class T>
void local_response_norm(Context& context, T* y, const T* x, const LocalResponseNorm& sizes) {
  constexpr int V = pack_size<T>;
  const std::int64_t n = sizes.N * sizes.C * sizes.area;
  const bool last = sizes.layout == kernels::Layout::channels_last;
  if (n == 0) return;
  if (!usual_window(sizes))
    return launch(context, Grid(blocks_for(n, 128), 128), lrn_kernel<T>, n,
                  Response<Scalar<T>>(sizes, last ? 1 : sizes.area), y, x);
  if (!last) return walk_channels(context, sizes, lrn_first_kernel<T>, y, x);
  if (sizes.C % V == 0 && aligned<V>(y) && aligned<V>(x))
    return over_positions<V>(context, sizes, (2 + V - 1) / V, packs_forward, lrn_last_kernel<V, T>, y, x);
  over_positions<1>(context, sizes, 2, packs_forward, lrn_last_kernel<1, T>, y, x);
}

template <class T>
void local_response_norm_backward(Context& context, T* grad_x, const T* grad_y, const T* x, const T* y,
                                  const LocalResponseNorm& sizes) {
  constexpr int V = pack_size<T>;
  const std::int64_t n = sizes.N * sizes.C * sizes.area;
  const bool last = sizes.layout == kernels::Layout::channels_last;
  if (n == 0) return;
  if (!usual_window(sizes))
    return launch(context, Grid(blocks_for(n, 128), 128), lrn_backward_kernel<T>, n,
                  Response<Scalar<T>>(sizes, last ? 1 : sizes.area), grad_x, grad_y, x, y);
  if (!last) return walk_channels(context, sizes, lrn_first_backward_kernel<T>, grad_x, grad_y, x);
  if (sizes.C % V == 0 && aligned<V>(grad_x) && aligned<V>(grad_y) && aligned<V>(x))
    return over_positions<V>(context, sizes, edge_lanes<V>, 1, lrn_last_backward_kernel<V, T>, grad_x, grad_y, x);
  over_positions<1>(context, sizes, edge_lanes<1>, 1, lrn_last_backward_kernel<1, T>, grad_x, grad_y, x);
}

#define TERN_INSTANTIATE(T)                                                            \
  template void local_response_norm(Context&, T*, const T*, const LocalResponseNorm&); \
  template void local_response_norm_backward(Context&, T*, const T*, const T*, const T*, const LocalResponseNorm&);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
TERN_INSTANTIATE(BFloat16)
TERN_INSTANTIATE(Float16)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda
