#include <algorithm>

#include "cuda/convolution/narrow.cuh"
#include "cuda/fused.cuh"

namespace tern::cuda::convolution {
namespace narrow {

using single::Strip;
using single::tap_pitch;
using single::Taps;
using single::Walk;
using single::Window;

bool fits(const Problem& p) {
  constexpr std::int64_t most_channels = 32, most_layers = 65535;
  return single::walks(p) && p.KH > 1 && p.groups > 1 && std::max(p.C, p.O) / p.groups <= most_channels &&
         p.C * p.O / p.groups <= most_layers && p.N * p.groups * std::max(p.C, p.O) > 0;
}

bool is_preferred(const Problem& p) {
  constexpr std::int64_t most_elements = 1'000'000;
  const std::int64_t most = std::max(p.C, p.O) / p.groups;
  // Kernels of single channels (depthwise*.cu) wait for one tap after the other where it has a dilation.
  if (most == 1) return p.dilation_h > 1 && p.stride_h == 1 && std::max(p.images(), p.outputs()) <= most_elements;
  return most <= 8;
}

namespace {

constexpr int threads = 128;

/// Positions of a strip.
template <int S>
constexpr int strip_rows = S == 1 ? 8 : 4;

template <class E>
struct Arguments {
  E* to;
  const E *from, *weight, *bias;
  Activation activation;
  bool back;
  int groups, read, written, tiles;  ///< channels of a group that are read and written; tiles of the latter
};

/// The weights of a tile of T written channels, turned by 180 degrees on the way back: [column][read][T] by the taps of
/// a column.
template <int K, int T, class E>
__device__ __forceinline__ void stage_weights(float* shared, const Arguments<E>& on, int group, int first) {
  const int count = K * on.read * T * tap_pitch<K>;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
    const int kh = i % tap_pitch<K>, o = i / tap_pitch<K> % T, c = i / (tap_pitch<K> * T) % on.read,
              kw = i / (tap_pitch<K> * T * on.read), written = first + o;
    const int pair =
        on.back ? (group * on.read + c) * on.written + written : (group * on.written + written) * on.read + c;
    const int tap = on.back ? (K - 1 - kh) * K + K - 1 - kw : kh * K + kw;
    shared[i] =
        kh < K && written < on.written ? widened(on.weight[static_cast<std::int64_t>(pair) * (K * K) + tap]) : 0.0f;
  }
  __syncthreads();
}

/// Blocks of strips by tiles of the groups.
template <int K, int S, bool apart, int T, class E>
__global__ void __launch_bounds__(threads, 4)
    narrow_kernel(const __grid_constant__ Arguments<E> on, const __grid_constant__ Walk walk) {
  constexpr int rows = strip_rows<S>;
  using Reads = Window<K, S, apart, rows>;
  extern __shared__ float4 memory[];
  float* const weights = reinterpret_cast<float*>(memory);
  const int group = static_cast<int>(blockIdx.y) / on.tiles, first = static_cast<int>(blockIdx.y) % on.tiles * T;
  begin_kernel();
  stage_weights<K, T>(weights, on, group, first);
  const Strip<rows> strip(blockIdx.x * threads + threadIdx.x, walk);
  if (strip.image >= walk.images) return;
  // Which rows of the windows exist, and where they are, is the same for all channels.
  unsigned exist = 0;
  int at[Reads::length];
#pragma unroll
  for (int j = 0; j < Reads::length; ++j) {
    const int h = Reads::place(strip.row * walk.stride - walk.pad_h + j * walk.dilation, walk.read_h, walk);
    exist |= (h >= 0 ? 1u : 0u) << j;
    at[j] = h * walk.read_w;
  }
  const int area = walk.read_h * walk.read_w;
  const std::int64_t image = static_cast<std::int64_t>(strip.image) * on.groups + group;
  float sum[T][rows] = {};
#pragma unroll 1
  for (int kw = 0; kw < K; ++kw) {
    const int w = Reads::place(strip.column * walk.stride - walk.pad_w + kw * walk.dilation, walk.read_w, walk);
    const unsigned live = w >= 0 ? exist : 0u;
    const E* column = on.from + image * on.read * area + w;
    const float* taps_of = weights + kw * on.read * (T * tap_pitch<K>);
#pragma unroll 1
    for (int c = 0; c < on.read; ++c, column += area, taps_of += T * tap_pitch<K>) {
      float value[Reads::length];
#pragma unroll
      for (int j = 0; j < Reads::length; ++j) value[j] = (live >> j & 1u) != 0 ? widened(column[at[j]]) : 0.0f;
#pragma unroll
      for (int o = 0; o < T; ++o) {
        const Taps<K> taps(taps_of, o);
#pragma unroll
        for (int kh = 0; kh < K; ++kh)
#pragma unroll
          for (int r = 0; r < rows; ++r) sum[o][r] = fmaf(value[r * S + kh], taps.value[kh], sum[o][r]);
      }
    }
  }
  E* to = on.to + ((image * on.written + first) * walk.at_h + strip.row) * walk.at_w + strip.column;
#pragma unroll
  for (int o = 0; o < T; ++o, to += walk.at_h * walk.at_w) {
    if (first + o >= on.written) return;
    const float shift = on.bias == nullptr ? 0.0f : widened(on.bias[group * on.written + first + o]);
#pragma unroll
    for (int r = 0; r < rows; ++r)
      if (strip.row + r * walk.step < walk.at_h)
        put(to[r * walk.step * walk.at_w], activate(on.bias == nullptr ? sum[o][r] : sum[o][r] + shift, on.activation));
  }
}

/// Calls body(T) with the outputs of a thread: 1 to 4, of which the fewest tiles with the fewest empty places.
template <class Body>
void with_tile(int written, const Body& body) {
  const auto waste = [written](int tile) { return ceil_div(written, tile) * tile * 8 - tile; };
  if (written == 1) return body(std::integral_constant<int, 1>{});
  if (waste(4) <= std::min(waste(3), waste(2))) return body(std::integral_constant<int, 4>{});
  if (waste(3) <= waste(2)) return body(std::integral_constant<int, 3>{});
  body(std::integral_constant<int, 2>{});
}

template <class E>
void run_as(const Context& context, const Problem& p, const Arrays& arrays) {
  const bool back = p.pass == Pass::grad_x;
  Walk walk = single::walk_of(p, back);
  const auto typed = [](void* array) { return static_cast<E*>(array); };
  Arguments<E> on{typed(back ? arrays.x : arrays.y),
                  typed(back ? arrays.y : arrays.x),
                  typed(arrays.weight),
                  back ? nullptr : typed(arrays.bias),
                  back ? Activation::none : p.activation,
                  back,
                  static_cast<int>(p.groups),
                  static_cast<int>((back ? p.O : p.C) / p.groups),
                  static_cast<int>((back ? p.C : p.O) / p.groups),
                  1};
  single::with_window(p, back, [&](auto size, auto stride, auto apart) {
    constexpr int K = size.value, S = stride.value;
    if constexpr (K > 1) {
      with_tile(on.written, [&](auto tile) {
        constexpr int T = tile.value;
        walk.cut(strip_rows<S>);
        on.tiles = static_cast<int>(ceil_div(on.written, T));
        const dim3 blocks(static_cast<unsigned>(ceil_div(walk.items(strip_rows<S>), threads)),
                          static_cast<unsigned>(on.groups * on.tiles));
        launch(context, Grid(blocks, threads, sizeof(float) * static_cast<std::size_t>(K * on.read * T * tap_pitch<K>)),
               narrow_kernel<K, S, apart.value, T, E>, on, walk);
      });
    }
  });
}

void run(Context& context, const Problem& p, const Arrays& arrays, int, void*) {
  with_stored(p, [&](auto* none) { run_as<std::remove_pointer_t<decltype(none)>>(context, p, arrays); });
}

constexpr auto named = "narrow";

bool fits_first(const Problem& p) { return fits(p) && is_preferred(p); }
bool fits_last(const Problem& p) { return fits(p) && !is_preferred(p); }

}  // namespace
}  // namespace narrow

using narrow::named;
const Algorithm narrow_forward_first{named, narrow::fits_first, nullptr, narrow::run};
const Algorithm narrow_forward_last{named, narrow::fits_last, nullptr, narrow::run};
const Algorithm narrow_grad_x_first{named, narrow::fits_first, nullptr, narrow::run};
const Algorithm narrow_grad_x_last{named, narrow::fits_last, nullptr, narrow::run};
const Algorithm narrow_grad_weight_first{named, narrow::fits_first, single::grad_weight_workspace,
                                         single::run_grad_weight};
const Algorithm narrow_grad_weight_last{named, narrow::fits_last, single::grad_weight_workspace,
                                        single::run_grad_weight};

}  // namespace tern::cuda::convolution
