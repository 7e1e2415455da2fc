// The weight's gradient as a matrix product: rows are output channels, columns are (kernel row, kernel column, input
// channel), and the sum runs over the positions of all images. Both factors are read in memory order, with a position's
// channels adjacent; tiles pass through a ring of stages in shared memory that cp.async fills ahead.

#include <algorithm>

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/implicit.cuh"
#include "cuda/fused_rows.cuh"

namespace tern::cuda::convolution {
namespace {

constexpr int skew = 8;  // floats between rows in shared memory, to avoid bank conflicts of fragments

template <class Tile>
constexpr int g_pitch = Tile::rows + skew;
template <class Tile>
constexpr int x_pitch = Tile::columns + skew;
template <class Tile>
constexpr int stage_floats = Tile::depth*(g_pitch<Tile> + x_pitch<Tile>);
template <class Tile>
constexpr std::size_t shared_bytes = sizeof(float) * Tile::stages* stage_floats<Tile>;

struct WeightGradient {
  Sizes sizes;
  const float *g, *x;
  float* out;  // one weight per slice
  int per_slice, slices;
};

/// float32: each lane has packs of four rows 16 apart and packs of four columns 32 apart of its warp's part.
template <class Tile>
struct MultiplyAdds {
  static constexpr int rows = Tile::warp_rows / 16, columns = Tile::warp_columns / 32;
  static constexpr double rate = 25e6;  // multiply-adds per microsecond on an H200
  int row, column;
  float sums[rows][columns][4][4] = {};

  __device__ MultiplyAdds(int in_m, int in_n, int lane) : row(in_m + lane / 8 * 4), column(in_n + lane % 8 * 4) {}

  __device__ __forceinline__ void add(const float* g, const float* x) {
#pragma unroll
    for (int k = 0; k < Tile::depth; ++k) {
      Pack<float, 4> left[rows], right[columns];
#pragma unroll
      for (int m = 0; m < rows; ++m) left[m] = load<4>(g + k * g_pitch<Tile> + row + m * 16);
#pragma unroll
      for (int n = 0; n < columns; ++n) right[n] = load<4>(x + k * x_pitch<Tile> + column + n * 32);
#pragma unroll
      for (int m = 0; m < rows; ++m)
#pragma unroll
        for (int n = 0; n < columns; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) sums[m][n][i][j] = fmaf(left[m].value[i], right[n].value[j], sums[m][n][i][j]);
    }
  }
  /// Calls body(row, column, sums) for runs of adjacent columns.
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) const {
#pragma unroll
    for (int m = 0; m < rows; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int n = 0; n < columns; ++n) {
          const float* const sum = sums[m][n][i];
          body(row + m * 16 + i, column + n * 32, Pack<float, 4>{{sum[0], sum[1], sum[2], sum[3]}});
        }
  }
};

/// TF32: fragments of 16 x 8.
template <class Tile>
struct TensorCores {
  static constexpr int blocks_m = Tile::warp_rows / 16, blocks_n = Tile::warp_columns / 8;
  static constexpr double rate = 60e6;  // multiply-adds per microsecond on an H200
  int in_m, in_n, quad, place;
  float sums[blocks_m][blocks_n][4] = {};

  __device__ TensorCores(int m, int n, int lane) : in_m(m), in_n(n), quad(lane / 4), place(lane % 4) {}

  __device__ __forceinline__ void add(const float* g, const float* x) {
    const float* const g_at = g + place * g_pitch<Tile> + in_m + quad * 2;
    const float* const x_at = x + place * x_pitch<Tile> + in_n + quad;
#pragma unroll
    for (int k = 0; k < Tile::depth; k += 8) {
      // Rows of a fragment may be any rows of g: pairs of adjacent ones arrive in the registers that need them.
      std::uint32_t left[blocks_m][4], right[blocks_n][2];
#pragma unroll
      for (int m = 0; m < blocks_m; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const auto pair =
              load<2>(reinterpret_cast<const std::uint32_t*>(g_at + (k + half * 4) * g_pitch<Tile> + m * 16));
          left[m][half * 2] = pair.value[0];
          left[m][half * 2 + 1] = pair.value[1];
        }
#pragma unroll
      for (int n = 0; n < blocks_n; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          right[n][half] = *reinterpret_cast<const std::uint32_t*>(x_at + (k + half * 4) * x_pitch<Tile> + n * 8);
#pragma unroll
      for (int m = 0; m < blocks_m; ++m)
#pragma unroll
        for (int n = 0; n < blocks_n; ++n) multiply_add(sums[m][n], left[m], right[n]);
    }
  }
  /// Calls body(row, column, sums) for runs of adjacent columns.
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) const {
#pragma unroll
    for (int m = 0; m < blocks_m; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int n = 0; n < blocks_n; ++n)
          body(in_m + m * 16 + quad * 2 + i, in_n + n * 8 + place * 2,
               Pack<float, 2>{{sums[m][n][i * 2], sums[m][n][i * 2 + 1]}});
  }
};

template <template <class> class Arithmetic, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::resident)
    grad_weight_kernel(const __grid_constant__ WeightGradient p) {
  constexpr int depth = Tile::depth, stages = Tile::stages;
  extern __shared__ float4 shared_vectors[];
  float* const shared = reinterpret_cast<float*>(shared_vectors);
  begin_kernel();
  const Sizes& s = p.sizes;

  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(blockIdx.z) / p.slices, slice = static_cast<int>(blockIdx.z) % p.slices;
  const int first_row = static_cast<int>(blockIdx.y) * Tile::rows,
            first_column = static_cast<int>(blockIdx.x) * Tile::columns;
  const int begin = slice * p.per_slice, end = min(s.positions, begin + p.per_slice);

  // What this thread copies: of g, four channels of a position each time.
  constexpr int g_chunks = Tile::rows / 4, g_count = depth * g_chunks / Tile::threads;
  static_assert(depth * g_chunks % Tile::threads == 0);
  const float* const g_from = p.g + static_cast<std::int64_t>(group) * s.O + first_row;
  // Of x, four channels under one element of the kernel, of every x_step-th position; half a warp handles one position
  // at a time.
  constexpr int x_chunks = Tile::columns / 4, x_step = Tile::threads / x_chunks, x_count = depth / x_step;
  static_assert(x_chunks % 16 == 0 && x_count <= 16 && depth % x_step == 0 && shared_bytes<Tile> <= most_shared_bytes);
  const int x_column = static_cast<int>(threadIdx.x) % x_chunks * 4, x_row = static_cast<int>(threadIdx.x) / x_chunks;
  const int column = first_column + x_column;
  const bool column_inside = column < s.length;
  auto tap = static_cast<std::uint32_t>(column_inside ? column : 0);
  const auto c = static_cast<int>(s.channels.split(tap));
  const int kw = static_cast<int>(s.KW.split(tap)), kh = static_cast<int>(tap);
  const int shift_h = kh * s.dilation_h, shift_w = kw * s.dilation_w;
  const float* const x_from = p.x + static_cast<std::int64_t>(group) * s.C + c;

  const auto fill = [&](int stage, int position) {
    float* const g_to = shared + stage * stage_floats<Tile>;
    float* const x_to = g_to + depth * g_pitch<Tile>;
#pragma unroll
    for (int i = 0; i < g_count; ++i) {
      const int chunk = static_cast<int>(threadIdx.x) + i * Tile::threads;
      const int row = chunk / g_chunks, at_row = chunk % g_chunks * 4, at = position + row;
      const bool inside = (first_row + at_row < s.O) & (at < end);
      copy_async<4, true>(g_to + row * g_pitch<Tile> + at_row, g_from + (inside ? at * s.y_pitch + at_row : 0), inside);
    }
    // A few lanes of each half of a warp locate its positions and tell the others.
    std::uint32_t n = static_cast<std::uint32_t>(position + x_row + lane % 16 % x_count * x_step);
    const int2 own = s.window_of(n);
    const int own_image = static_cast<int>(n) * s.H;
#pragma unroll
    for (int i = 0; i < x_count; ++i) {
      const int from_lane = lane / 16 * 16 + i;
      const int h = __shfl_sync(~0u, own.y, from_lane) + shift_h, w = __shfl_sync(~0u, own.x, from_lane) + shift_w;
      const int image = __shfl_sync(~0u, own_image, from_lane);
      const bool inside = column_inside & (position + x_row + i * x_step < end) &
                          (static_cast<unsigned>(h) < static_cast<unsigned>(s.H)) &
                          (static_cast<unsigned>(w) < static_cast<unsigned>(s.W));
      const int from = inside ? ((image + h) * s.W + w) * s.x_pitch : 0;
      copy_async<4, true>(x_to + (x_row + i * x_step) * x_pitch<Tile> + x_column, x_from + from, inside);
    }
  };

  Arithmetic<Tile> product(warp / Tile::warps_n * Tile::warp_rows, warp % Tile::warps_n * Tile::warp_columns, lane);
  const int steps = max(0, (end - begin + depth - 1) / depth);
#pragma unroll
  for (int stage = 0; stage < stages - 1; ++stage) {
    if (stage < steps) fill(stage, begin + stage * depth);
    commit_copies();
  }
  for (int step = 0; step < steps; ++step) {
    await_copies<stages - 2>();
    __syncthreads();
    if (step + stages - 1 < steps) fill((step + stages - 1) % stages, begin + (step + stages - 1) * depth);
    commit_copies();
    const float* const stage = shared + step % stages * stage_floats<Tile>;
    product.add(stage, stage + depth * g_pitch<Tile>);
  }

  float* const out = p.out + (static_cast<std::int64_t>(slice) * gridDim.z / p.slices + group) * s.O * s.length;
  product.each([&](int in_rows, int in_columns, const auto& sums) {
    const int row = first_row + in_rows, to = first_column + in_columns;
    if (row < s.O && to < s.length) store(out + static_cast<std::int64_t>(row) * s.length + to, sums);
  });
}

/// The tiles for each arithmetic, and the fraction of the wide tile's rate that the smaller ones reach.
template <template <class> class Arithmetic>
struct Tiles;
template <>
struct Tiles<TensorCores> {
  using Wide = ImplicitTile<128, 128, 2, 2, 16, 5, 2>;
  using Medium = ImplicitTile<96, 128, 1, 4, 32, 3, 2>;
  using Narrow = ImplicitTile<64, 128, 2, 2, 32, 3, 2>;
  using Slim = ImplicitTile<32, 256, 1, 4, 16, 4, 2>;
  using Thirds = ImplicitTile<64, 192, 2, 3, 24, 3, 2>;  // for 64 channels of x: a row of a kernel of 3
  static constexpr double medium_rate = 0.88, narrow_rate = 0.78;
};
template <>
struct Tiles<MultiplyAdds> {
  using Wide = ImplicitTile<128, 128, 2, 2, 16, 3, 2>;
  using Medium = ImplicitTile<96, 128, 3, 2, 24, 3, 2>;
  using Narrow = ImplicitTile<64, 128, 1, 2, 16, 4, 4>;
  using Slim = ImplicitTile<32, 128, 1, 2, 16, 3, 6>;
  static constexpr double medium_rate = 0.95, narrow_rate = 0.95;
};

template <template <class> class Arithmetic, class Tile>
struct With {};

template <template <class> class Arithmetic, class Body>
auto with_tile_of(const Problem& problem, const Body& body) {
  using All = Tiles<Arithmetic>;
  const std::int64_t O = problem.O / problem.groups;
  // The cost includes the rows beyond O.
  const auto cost = [O](int rows, double rate) { return static_cast<double>(ceil_div(O, rows) * rows) / rate; };
  if (O <= 32) return body(With<Arithmetic, typename All::Slim>{});
  const double wide = cost(128, 1), medium = cost(96, All::medium_rate), narrow = cost(64, All::narrow_rate);
  if constexpr (requires { typename All::Thirds; })
    if (O == 64 && problem.KW * (problem.C / problem.groups) % All::Thirds::columns == 0)
      return body(With<Arithmetic, typename All::Thirds>{});
  if (narrow < std::min(wide, medium)) return body(With<Arithmetic, typename All::Narrow>{});
  if (medium < wide) return body(With<Arithmetic, typename All::Medium>{});
  return body(With<Arithmetic, typename All::Wide>{});
}

/// Calls body with the arithmetic that the problem allows and the tile for this number of output channels.
template <class Body>
auto with_tile(const Problem& problem, const Body& body) {
  return problem.tensor_cores() ? with_tile_of<TensorCores>(problem, body) : with_tile_of<MultiplyAdds>(problem, body);
}

template <class Tile>
std::int64_t tiles_of(const Problem& problem) {
  const std::int64_t columns = problem.KH * problem.KW * (problem.C / problem.groups);
  return ceil_div(problem.O / problem.groups, Tile::rows) * ceil_div(columns, Tile::columns) * problem.groups;
}

// The number of slices with the least time: whole waves of blocks fill the card, and every slice is a weight that is
// written and read once more.
template <template <class> class Arithmetic, class Tile>
std::int64_t find_slices(const Problem& problem) {
  constexpr double floats_rate = 0.4e6;  // per microsecond on an H200
  const std::int64_t slots = std::int64_t{Tile::resident} * card().multiprocessors, tiles = tiles_of<Tile>(problem);
  const std::int64_t positions = problem.N * problem.OH * problem.OW, most = std::max<std::int64_t>(1, positions / 64);
  const double weights = static_cast<double>(problem.O * problem.KH * problem.KW * (problem.C / problem.groups));
  const double whole_time = weights * static_cast<double>(positions) / Arithmetic<Tile>::rate;
  std::int64_t best = 1;
  double best_time = 0;
  for (std::int64_t slices = 1; slices <= std::min(most, 2 * slots); ++slices) {
    const auto parts = static_cast<double>(tiles * slices);
    const double filled = static_cast<double>(ceil_div(tiles * slices, slots) * slots) / parts;
    const double time = whole_time * filled + static_cast<double>(slices) * weights / floats_rate;
    if (slices > 1 && time >= best_time) continue;
    best = slices;
    best_time = time;
  }
  return best;
}

// The number of parts of the sum over the positions.
std::int64_t slices_of(const Problem& problem) {
  struct Rule;
  return remembered<Rule>(problem, [&] {
    return with_tile(problem, [&]<template <class> class Arithmetic, class Tile>(With<Arithmetic, Tile>) {
      return find_slices<Arithmetic, Tile>(problem);
    });
  });
}

struct Implicit {
  static int next_plan(const Problem&, const Task&, int plan) { return plan < 0 ? 0 : -1; }
  static std::size_t workspace(const Problem&, const Task& task, int) {
    return static_cast<std::size_t>(slices_of(task.packed) * task.packed.weights()) * sizeof(float);
  }
  static void run(Context& context, const Problem& requested, const Task& task, const Arrays& arrays, int,
                  void* workspace) {
    const Problem& problem = task.packed;
    const Sizes sizes = sizes_of(problem);
    const std::int64_t slices = slices_of(problem);
    auto* const weight = static_cast<float*>(arrays.weight);
    auto* const partials = static_cast<float*>(workspace);
    const bool sums = sums_weight(requested, problem, slices);
    const WeightGradient p{.sizes = sizes,
                           .g = static_cast<const float*>(arrays.y),
                           .x = static_cast<const float*>(arrays.x),
                           .out = slices == 1 && !sums ? weight : partials,
                           .per_slice = static_cast<int>(ceil_div(ceil_div(sizes.positions, slices), 32) * 32),
                           .slices = static_cast<int>(slices)};
    with_tile(problem, [&]<template <class> class Arithmetic, class Tile>(With<Arithmetic, Tile>) {
      const auto kernel = grad_weight_kernel<Arithmetic, Tile>;
      const dim3 blocks(static_cast<unsigned>(ceil_div(sizes.length, Tile::columns)),
                        static_cast<unsigned>(ceil_div(sizes.O, Tile::rows)),
                        static_cast<unsigned>(slices * problem.groups));
      launch(context, Grid(blocks, Tile::threads, shared_bytes<Tile>), kernel, p);
    });
    if (sums)
      sum_weight(context, weight, partials, slices, requested);
    else if (slices > 1)
      sum_slices<float>(context, weight, nullptr, partials, slices, problem.weights(), 0);
  }
};

Task task_of(const Problem& requested) {
  const Problem problem = packed(requested, Element::float32);
  const bool sums = sums_weight(requested, problem, slices_of(problem));
  return {problem, takes_image(requested, problem), sums || takes_weight(requested, problem), true};
}

bool fits(const Problem& requested) {
  return requested.channels_last() && requested.element == Element::float32 &&
         implicit_fits(packed(requested, Element::float32));
}

}  // namespace

const Algorithm implicit_grad_weight = Around<task_of, Implicit>::algorithm("implicit", fits);

}  // namespace tern::cuda::convolution
