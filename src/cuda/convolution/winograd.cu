// Winograd's F(4 x 4, 3 x 3) in strict float32, channels last: tiles of 6 x 6 positions and the weights are transformed
// to 36 frequencies, a product over the channels for each of them follows, by cuBLASLt, and the sums are transformed
// back. It takes 36 multiply-adds where the sum takes 144. The points are those of `vectorized`: 0, 1, -1, 1/2, -2 and
// infinity (Lavin and Gray, 2016; accuracy: docs/numbers.md).

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/packed.cuh"
#include "cuda/convolution/rule.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/products/library.cuh"

namespace tern::cuda::convolution {
namespace {

constexpr int side = 6, step = 4, taps = 3, frequencies = side * side, threads = 128;
constexpr std::int64_t most_index = std::int64_t{1} << 31;
constexpr std::int64_t most_weights = (std::int64_t{1} << 26) / frequencies;  // whose transform has 256 MB

// ---- one side of a tile ----

__device__ __forceinline__ void transform_input(float (&d)[side]) {
  const float t0 = d[0] - 2 * d[2] + d[4] + 1.5f * (d[3] - d[1]), t1 = d[4] - d[1] + 0.5f * d[2] + 2.5f * d[3],
              t2 = d[4] + d[1] - 2.5f * d[2] + 0.5f * d[3], t3 = d[4] - d[2] + 2 * (d[3] - d[1]),
              t4 = d[4] - d[2] + 0.5f * (d[1] - d[3]), t5 = d[1] - 2 * d[3] + d[5] + 1.5f * (d[4] - d[2]);
  d[0] = t0, d[1] = t1, d[2] = t2, d[3] = t3, d[4] = t4, d[5] = t5;
}

__device__ __forceinline__ void transform_weight(float (&to)[side], const float (&w)[taps]) {
  to[0] = w[0];
  to[1] = (w[0] + w[2] + w[1]) * (1 / 3.0f);
  to[2] = (w[1] - w[0] - w[2]) * (1 / 3.0f);
  to[3] = (4 * w[0] + 2 * w[1] + w[2]) * (-4 / 15.0f);
  to[4] = (w[0] - 2 * w[1] + 4 * w[2]) * (1 / 15.0f);
  to[5] = w[2];
}

__device__ __forceinline__ void transform_sums(float (&to)[step], const float (&m)[side]) {
  const float sum = m[1] + m[2], difference = m[1] - m[2];
  to[0] = m[0] + sum + m[3] + m[4];
  to[1] = difference + 0.5f * m[3] - 2 * m[4];
  to[2] = sum + 0.25f * m[3] + 4 * m[4];
  to[3] = difference + 0.125f * m[3] - 8 * m[4] + m[5];
}

// ---- kernels ----

/// What a pass reads and writes: the forward convolution, or the gradient of x as one with the weight flipped and its
/// channels exchanged.
struct Sizes {
  int H, W, C, OH, OW, O, pad_h, pad_w;
  bool flips;                                                         ///< the gradient of x
  std::int64_t y_pitch;                                               ///< elements from one position of y to the next
  std::int64_t tiles;                                                 ///< of all images
  std::int64_t at_once;                                               ///< tiles that are in the workspace together
  Divisor<std::uint32_t> of_channels, of_outputs, of_row, of_column;  ///< of_row, of_column: tiles of an image
};

struct Tile {
  std::int64_t image;
  int top, left;  ///< of its outputs
};
__device__ __forceinline__ Tile tile_at(const Sizes& s, std::int64_t number) {
  auto rest = static_cast<std::uint32_t>(number);
  const auto column = static_cast<int>(s.of_column.split(rest)), row = static_cast<int>(s.of_row.split(rest));
  return {static_cast<std::int64_t>(rest), row * step, column * step};
}

/// to [36, O, C] from weight [O, C, 3, 3]; for a gradient of x the taps are read backwards.
__global__ void __launch_bounds__(threads)
    winograd_weight_kernel(float* to, const float* weight, std::uint32_t count, bool flips) {
  begin_kernel();
  const auto i = static_cast<std::uint32_t>(global_thread());
  if (i >= count) return;
  float rows[taps][side], all[side][side];
#pragma unroll
  for (int h = 0; h < taps; ++h) {
    float row[taps];
#pragma unroll
    for (int w = 0; w < taps; ++w) {
      const int tap = h * taps + w;
      row[w] = weight[std::int64_t{i} * taps * taps + (flips ? taps * taps - 1 - tap : tap)];
    }
    transform_weight(rows[h], row);
  }
#pragma unroll
  for (int w = 0; w < side; ++w) {
    const float column[taps]{rows[0][w], rows[1][w], rows[2][w]};
    transform_weight(all[w], column);
  }
#pragma unroll
  for (int h = 0; h < side; ++h)
#pragma unroll
    for (int w = 0; w < side; ++w) to[std::int64_t{h * side + w} * count + i] = all[w][h];
}

/// to [36, at_once, C] from x [N, H, W, C], the tiles from `first` on; those beyond the last are zeros.
__global__ void __launch_bounds__(threads)
    winograd_input_kernel(float* to, const float* __restrict__ x, std::int64_t first, const __grid_constant__ Sizes s) {
  begin_kernel();
  auto tile = static_cast<std::uint32_t>(global_thread());
  const std::uint32_t i = tile, count = static_cast<std::uint32_t>(s.at_once) * s.of_channels.value();
  if (i >= count) return;
  const auto c = static_cast<int>(s.of_channels.split(tile));
  const bool present = first + tile < s.tiles;
  const Tile at = tile_at(s, present ? first + tile : 0);
  const float* const image = x + at.image * s.H * s.W * s.C + c;
  float columns[side][side];
#pragma unroll
  for (int h = 0; h < side; ++h) {
    const int row = at.top - s.pad_h + h;
    float line[side];
#pragma unroll
    for (int w = 0; w < side; ++w) {
      const int column = at.left - s.pad_w + w;
      const bool inside = present && row >= 0 && row < s.H && column >= 0 && column < s.W;
      line[w] = inside ? image[(static_cast<std::int64_t>(row) * s.W + column) * s.C] : 0.0f;
    }
    transform_input(line);
#pragma unroll
    for (int w = 0; w < side; ++w) columns[w][h] = line[w];
  }
#pragma unroll
  for (int w = 0; w < side; ++w) {
    transform_input(columns[w]);
#pragma unroll
    for (int h = 0; h < side; ++h) to[std::int64_t{h * side + w} * count + i] = columns[w][h];
  }
}

/// An output as a plain sum. Padding is multiplied as zeros, but the gradient of x has no terms beyond the edges.
__device__ __noinline__ float direct_sum(const float* x, const float* weight, const Sizes& s, const Tile& at, int row,
                                         int column, int o) {
  float sum = 0;
  for (int h = 0; h < taps; ++h)
    for (int w = 0; w < taps; ++w) {
      const int from_h = at.top + row - s.pad_h + h, from_w = at.left + column - s.pad_w + w;
      const bool inside = from_h >= 0 && from_h < s.H && from_w >= 0 && from_w < s.W;
      if (!inside && s.flips) continue;
      const int tap = s.flips ? taps * taps - 1 - h * taps - w : h * taps + w;
      const std::int64_t position = (at.image * s.H + from_h) * s.W + from_w;
      for (int c = 0; c < s.C; ++c) {
        const std::int64_t pair = s.flips ? std::int64_t{c} * s.O + o : std::int64_t{o} * s.C + c;
        sum = fmaf(inside ? x[position * s.C + c] : 0.0f, weight[pair * taps * taps + tap], sum);
      }
    }
  return sum;
}

/// y [N, OH, OW, O] from sums [36, at_once, O]. A tile that a transform overflowed, or that has elements which are not
/// finite, is summed again: NaN and infinity reach no output but their own.
__global__ void __launch_bounds__(threads)
    winograd_output_kernel(float* y, const float* __restrict__ sums, const float* bias, const float* x,
                           const float* weight, std::int64_t first, const __grid_constant__ Sizes s,
                           Activation activation) {
  begin_kernel();
  auto tile = static_cast<std::uint32_t>(global_thread());
  const std::uint32_t i = tile, count = static_cast<std::uint32_t>(s.at_once) * s.of_outputs.value();
  if (i >= count) return;
  const auto o = static_cast<int>(s.of_outputs.split(tile));
  if (first + tile >= s.tiles) return;
  const Tile at = tile_at(s, first + tile);
  float rows[side][step];
#pragma unroll
  for (int h = 0; h < side; ++h) {
    float line[side];
#pragma unroll
    for (int w = 0; w < side; ++w) line[w] = sums[std::int64_t{h * side + w} * count + i];
    transform_sums(rows[h], line);
  }
  float out[step][step];  // by column
  float check = 0;
#pragma unroll
  for (int w = 0; w < step; ++w) {
    const float line[side]{rows[0][w], rows[1][w], rows[2][w], rows[3][w], rows[4][w], rows[5][w]};
    transform_sums(out[w], line);
#pragma unroll
    for (int h = 0; h < step; ++h) check += out[w][h] * 0.0f;
  }
  const bool finite = check == 0;
  const float added = bias == nullptr ? 0.0f : bias[o];
#pragma unroll
  for (int h = 0; h < step; ++h)
#pragma unroll
    for (int w = 0; w < step; ++w) {
      if (at.top + h >= s.OH || at.left + w >= s.OW) continue;
      const float sum = finite ? out[w][h] : direct_sum(x, weight, s, at, h, w, o);
      y[((at.image * s.OH + at.top + h) * s.OW + at.left + w) * s.y_pitch + o] = activate(sum + added, activation);
    }
}

// ---- sizes ----

/// The pass as a forward convolution of its input.
Problem as_forward(const Problem& p) { return p.pass == Pass::grad_x ? flipped(p) : p; }

std::int64_t tiles_of(const Problem& forward) {
  return forward.N * ceil_div(forward.OH, step) * ceil_div(forward.OW, step);
}

/// Tiles in the workspace together: what the card's cache holds, divided evenly.
std::int64_t tiles_at_once(const Problem& forward) {
  constexpr std::int64_t floats = std::int64_t{6} << 20;
  const std::int64_t tiles = tiles_of(forward),
                     most = std::max<std::int64_t>(floats / (frequencies * (forward.C + forward.O)), 128);
  return ceil_div(tiles, ceil_div(tiles, most));
}

products::Problem product_of(const Problem& p) {
  const Problem forward = as_forward(p);
  products::Problem product;
  product.batch = frequencies;
  product.m = tiles_at_once(forward), product.n = forward.O, product.k = forward.C;
  product.transpose_b = p.pass == Pass::forward;
  product.stride_a = product.m * product.k, product.stride_b = product.n * product.k;
  product.deterministic = p.deterministic;
  product.device = p.device;
  product.inputs = {256, 256, 256};
  return product;
}

bool fits(const Problem& p) {
  const bool plain = p.stride_h == 1 && p.stride_w == 1 && p.dilation_h == 1 && p.dilation_w == 1 && p.groups == 1;
  if (!p.channels_last() || !plain || p.KH != taps || p.KW != taps || p.pad_h >= taps || p.pad_w >= taps) return false;
  if (p.tensor_cores() || p.element != Element::float32 || p.stored != Element::float32 || p.pools) return false;
  const Problem forward = as_forward(p);
  return tiles_of(forward) < most_index && forward.C > 0 && forward.C * forward.O <= most_weights &&
         tiles_at_once(forward) * std::max(forward.C, forward.O) < most_index;
}

/// Cycles of a multiprocessor, by arithmetic. An implicit product reaches 0.45 of the multiply-adds, cuBLASLt about
/// 0.65; what stays in the card's cache moves at 0.6 of its rate, the rest at a quarter.
struct Times {
  double here, implicit;
};
Times times_of(const Problem& p) {
  const Problem forward = as_forward(p);
  const tuning::Figures& card = tuning::figures();
  const auto pairs = static_cast<double>(forward.C * forward.O), tiles = static_cast<double>(tiles_of(forward));
  const auto channels = static_cast<double>(forward.C + forward.O);
  const double implicit = pairs * taps * taps * static_cast<double>(forward.positions()) / (0.45 * card.multiply_adds);
  const double products = pairs * frequencies * tiles / (0.65 * card.multiply_adds);
  const double cached = 2 * frequencies * tiles * channels,
               others = 2 * frequencies * pairs + step * step * tiles * channels;
  const double moved = sizeof(float) / static_cast<double>(card.bytes) * (cached / 0.6 + others * 4);
  const double launches = 1 + 3 * tiles / static_cast<double>(tiles_at_once(forward));
  constexpr double of_launch = 3;  // microseconds
  return {products + moved + launches * of_launch * card.clock * card.multiprocessors, implicit};
}
bool pays(const Problem& p) {
  constexpr double gain = 1.25;  // the least that counts
  const Times times = times_of(p);
  return gain * times.here < times.implicit;
}

// ---- the algorithm ----

/// The weights, the tiles and their sums, by frequency; then the product's own workspace.
struct Workspace {
  float *weights, *inputs, *sums;
  void* product;
  std::size_t bytes;

  Workspace(const Problem& p, int plan, void* block) {
    const products::Problem product_problem = product_of(p);
    Parts parts(block);
    const auto take = [&](std::int64_t count) {
      return static_cast<float*>(parts.take(static_cast<std::size_t>(frequencies * count) * sizeof(float)));
    };
    weights = take(p.O * p.C);
    inputs = take(product_problem.m * product_problem.k);
    sums = take(product_problem.m * product_problem.n);
    product = parts.take(products::algorithm_workspace(product_problem, plan));
    bytes = parts.bytes();
  }
};

int next_plan(const Problem& p, int plan) { return products::next_algorithm(product_of(p), plan); }
std::size_t workspace(const Problem& p, int plan) { return Workspace(p, plan, nullptr).bytes; }

Sizes sizes_of(const Problem& p, const Problem& forward) {
  using Divide = Divisor<std::uint32_t>;
  const auto whole = [](std::int64_t size) { return static_cast<int>(size); };
  return {whole(forward.H),
          whole(forward.W),
          whole(forward.C),
          whole(forward.OH),
          whole(forward.OW),
          whole(forward.O),
          whole(forward.pad_h),
          whole(forward.pad_w),
          p.pass == Pass::grad_x,
          p.pass == Pass::grad_x ? p.x_channels : p.y_channels,
          tiles_of(forward),
          tiles_at_once(forward),
          Divide(forward.C),
          Divide(forward.O),
          Divide(ceil_div(forward.OH, step)),
          Divide(ceil_div(forward.OW, step))};
}

void run(Context& context, const Problem& p, const Arrays& arrays, int plan, void* block) {
  const bool flips = p.pass == Pass::grad_x;
  const Problem forward = as_forward(p);
  const Sizes s = sizes_of(p, forward);
  const Workspace in(p, plan, block);
  const products::Problem product = product_of(p);
  const auto* const from = static_cast<const float*>(flips ? arrays.y : arrays.x);
  const auto* const weight = static_cast<const float*>(arrays.weight);
  auto* const to = static_cast<float*>(flips ? arrays.x : arrays.y);
  const auto* const bias = flips ? nullptr : static_cast<const float*>(arrays.bias);
  const std::int64_t pairs = p.O * p.C;
  launch(context, Grid(static_cast<unsigned>(ceil_div(pairs, threads)), threads), winograd_weight_kernel, in.weights,
         weight, static_cast<std::uint32_t>(pairs), flips);
  for (std::int64_t first = 0; first < s.tiles; first += s.at_once) {
    launch(context, Grid(static_cast<unsigned>(ceil_div(s.at_once * s.C, threads)), threads), winograd_input_kernel,
           in.inputs, from, first, s);
    products::run_algorithm(context, product, {in.sums, in.inputs, in.weights}, plan, in.product);
    launch(context, Grid(static_cast<unsigned>(ceil_div(s.at_once * s.O, threads)), threads), winograd_output_kernel,
           to, in.sums, bias, from, weight, first, s, flips ? Activation::none : p.activation);
  }
}

constexpr auto named = "winograd";
bool fits_first(const Problem& p) { return fits(p) && pays(p); }
bool fits_last(const Problem& p) { return fits(p) && !pays(p); }

}  // namespace

double winograd_gain(const Problem& p) {
  if (!fits_first(p)) return 0;
  const tuning::Figures& card = tuning::figures();
  const Times times = times_of(p);
  return (times.implicit - times.here) / (card.clock * card.multiprocessors);
}

const Algorithm winograd_forward_first{named, fits_first, workspace, run, next_plan};
const Algorithm winograd_forward_last{named, fits_last, workspace, run, next_plan};
const Algorithm winograd_grad_x_first{named, fits_first, workspace, run, next_plan};
const Algorithm winograd_grad_x_last{named, fits_last, workspace, run, next_plan};

}  // namespace tern::cuda::convolution
