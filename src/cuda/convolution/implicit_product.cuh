#pragma once
// A convolution as a matrix product: rows are the positions of all images, columns are output channels, and the sum
// runs over (kernel row, kernel column, input channel). Both factors are contiguous along the sum. If there are few
// tiles, the blocks of a cluster share their sums. A launch computes one convolution, or several with the same channels
// that write interleaved positions (implicit_strided.cu).

#include <cooperative_groups.h>

#include <algorithm>
#include <span>

#include "cuda/convolution/implicit.cuh"

namespace tern::cuda::convolution::implicit_product {

// Both factors' lines lie `Arithmetic::pitch` floats apart in a stage, so that fragments have no bank conflicts.
template <class Arithmetic, class Tile>
constexpr int stage_floats = (Tile::rows + Tile::columns) * Arithmetic::pitch;
template <class Tile>
constexpr int shared_pitch = Tile::columns + 4;  // of a tile of sums
template <class Arithmetic, class Tile>
constexpr std::size_t shared_bytes = sizeof(float) * std::max(Tile::stages* stage_floats<Arithmetic, Tile>,
                                                              Tile::rows* shared_pitch<Tile>);

struct Forward {
  Sizes sizes;
  float* y;
  const float *x, *weight, *bias;
  int tiles_n = 0, split = 0, per_split = 0;          ///< blocks that share a sum, and the k of each: set by run()
  Activation activation;                              ///< none, relu or relu6
  bool fours;                                         ///< y may be written four channels at a time
  int image_step = 0, row_step = 0, column_step = 0;  ///< elements of y between positions, where several write it
};

/// The convolutions of a launch.
template <int most>
struct Convolutions {
  Forward of[most];
};

/// Where a position is written, relative to y.
template <bool interleaved>
__device__ __forceinline__ int place_of(const Forward& p, int position) {
  if constexpr (!interleaved) return position * p.sizes.y_pitch;
  auto image = static_cast<std::uint32_t>(position);
  const int column = static_cast<int>(p.sizes.OW.split(image)), row = static_cast<int>(p.sizes.OH.split(image));
  return static_cast<int>(image) * p.image_step + row * p.row_step + column * p.column_step;
}

/// float32: each lane has rows 4 apart and columns 8 apart of its warp's part.
template <class Tile>
struct MultiplyAdds {
  static constexpr int rows = Tile::warp_rows / 4, columns = Tile::warp_columns / 8, pitch = Tile::depth + 4;
  int row, column;
  float sums[rows][columns] = {};

  __device__ MultiplyAdds(int in_m, int in_n, int lane) : row(in_m + lane / 8), column(in_n + lane % 8) {}

  __device__ __forceinline__ void add(const float* a, const float* b) {
#pragma unroll
    for (int k = 0; k < Tile::depth; k += 4) {
      Pack<float, 4> right[columns];
#pragma unroll
      for (int j = 0; j < columns; ++j) right[j] = load<4>(b + (column + 8 * j) * pitch + k);
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const auto left = load<4>(a + (row + 4 * i) * pitch + k);
#pragma unroll
        for (int part = 0; part < 4; ++part)
#pragma unroll
          for (int j = 0; j < columns; ++j) sums[i][j] = fmaf(left.value[part], right[j].value[part], sums[i][j]);
      }
    }
  }
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) const {
#pragma unroll
    for (int j = 0; j < columns; ++j)
#pragma unroll
      for (int i = 0; i < rows; ++i) body(row + 4 * i, column + 8 * j, sums[i][j]);
  }
};

/// TF32: fragments of 16 x 8. A lane reads four adjacent k at once, and multiplies them in place of those, four apart,
/// that the fragments expect: both factors agree on the order.
template <class Tile>
struct TensorCores {
  static constexpr int blocks_m = Tile::warp_rows / 16, blocks_n = Tile::warp_columns / 8, pitch = Tile::depth;
  static_assert(Tile::depth == 16);
  int in_m, in_n, quad, place;
  float sums[blocks_m][blocks_n][4] = {};

  __device__ TensorCores(int m, int n, int lane) : in_m(m), in_n(n), quad(lane / 4), place(lane % 4) {}

  __device__ __forceinline__ Pack<std::uint32_t, 4> four_of(const float* factor, int line) const {
    return *reinterpret_cast<const Pack<std::uint32_t, 4>*>(factor + (line + quad) * pitch + place * 4);
  }
  __device__ __forceinline__ void add(const float* a, const float* b) {
    Pack<std::uint32_t, 4> left[blocks_m][2], right[blocks_n];
#pragma unroll
    for (int m = 0; m < blocks_m; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) left[m][half] = four_of(a, in_m + m * 16 + half * 8);
#pragma unroll
    for (int n = 0; n < blocks_n; ++n) right[n] = four_of(b, in_n + n * 8);
#pragma unroll
    for (int k = 0; k < 4; k += 2)  // the same sums are as far apart as possible
#pragma unroll
      for (int n = 0; n < blocks_n; ++n)
#pragma unroll
        for (int m = 0; m < blocks_m; ++m) {
          const auto &upper = left[m][0].value, &lower = left[m][1].value, &other = right[n].value;
          multiply_add(sums[m][n], {upper[k], lower[k], upper[k + 1], lower[k + 1]}, {other[k], other[k + 1]});
        }
  }
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) const {
    each_pair(sums, quad * 4 + place, [&](int row, int column, float one, float next) {
      body(in_m + row, in_n + column, one);
      body(in_m + row, in_n + column + 1, next);
    });
  }
};

/// A sum with bias and activation.
__device__ __forceinline__ float finished(const Forward& p, float sum, int channel) {
  const float biased = p.bias == nullptr ? sum : sum + __ldg(p.bias + channel);
  return p.activation == Activation::none ? biased : clip(biased, p.activation);
}

/// Each block of the cluster adds its share of the tile, over the blocks in order. `first_channel` is the group's.
template <class Tile, bool interleaved>
__device__ __forceinline__ void finish_cluster(const Forward& p, float* shared, int rank, int first_row,
                                               int first_column, int first_channel) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  auto cluster = cooperative_groups::this_cluster();
  cluster.sync();
  float* const y = p.y + first_channel;
  constexpr int per_row = Tile::columns / 4, fours = Tile::rows * per_row;
  const int share = (fours + p.split - 1) / p.split;
  for (int e = rank * share + static_cast<int>(threadIdx.x); e < min(fours, (rank + 1) * share); e += Tile::threads) {
    const int row = e / per_row, column = e % per_row * 4;
    Pack<float, 4> sum{};
    for (int other = 0; other < p.split; ++other) {
      const auto part =
          load<4>(cluster.map_shared_rank(shared, static_cast<unsigned>(other)) + row * shared_pitch<Tile> + column);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum.value[i] += part.value[i];
    }
    const int position = first_row + row, o = first_column + column;
    if (position >= p.sizes.positions || o >= p.sizes.O) continue;  // O is a multiple of 4
#pragma unroll
    for (int i = 0; i < 4; ++i) sum.value[i] = finished(p, sum.value[i], first_channel + o + i);
    float* const to = y + place_of<interleaved>(p, position) + o;
    if (p.fours)
      store(to, sum);
    else
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = sum.value[i];
  }
  cluster.sync();  // nobody leaves while others read its shared memory
#endif
}

template <template <class> class Arithmetic, class Tile, int most>
__global__ void __launch_bounds__(Tile::threads, Tile::resident)
    forward_kernel(const __grid_constant__ Convolutions<most> all) {
  constexpr int depth = Tile::depth, stages = Tile::stages, chunks = depth / 4, step = Tile::threads / chunks;
  constexpr int a_count = Tile::rows / step, b_count = Tile::columns / step;
  constexpr int pitch = Arithmetic<Tile>::pitch, floats = stage_floats<Arithmetic<Tile>, Tile>;
  static_assert(Tile::rows % step == 0 && Tile::columns % step == 0 &&
                shared_bytes<Arithmetic<Tile>, Tile> <= most_shared_bytes);
  extern __shared__ float4 shared_vectors[];
  float* const shared = reinterpret_cast<float*>(shared_vectors);
  begin_kernel();
  const Forward& p = all.of[most == 1 ? 0 : blockIdx.z];
  const Sizes& s = p.sizes;

  const int rank = static_cast<int>(blockIdx.x) % p.split, tile = static_cast<int>(blockIdx.x) / p.split;
  const int first_row = tile / p.tiles_n * Tile::rows, first_column = tile % p.tiles_n * Tile::columns;
  if (most > 1 && first_row >= s.positions) return;  // as all blocks of the cluster
  const int group = static_cast<int>(blockIdx.y);
  const int begin = rank * p.per_split, end = min(s.length, begin + p.per_split);

  // This thread copies four k of every step-th position and channel.
  const int line = static_cast<int>(threadIdx.x) / chunks, chunk = static_cast<int>(threadIdx.x) % chunks * 4;
  const float* const x = p.x + static_cast<std::int64_t>(group) * s.C;
  const float* const weight = p.weight + static_cast<std::int64_t>(group * s.O + first_column) * s.length;
  int top[a_count], left[a_count], base[a_count];
#pragma unroll
  for (int i = 0; i < a_count; ++i) {
    const int position = first_row + line + i * step;
    const bool exists = position < s.positions;
    auto n = static_cast<std::uint32_t>(exists ? position : 0);
    const int2 window = s.window_of(n);
    left[i] = window.x;
    base[i] = ((static_cast<int>(n) * s.H + window.y) * s.W + window.x) * s.x_pitch;
    top[i] = exists ? window.y : -(1 << 30);  // never inside
  }
  int k = begin + chunk;
  auto tap = static_cast<std::uint32_t>(k);
  int c = static_cast<int>(s.channels.split(tap));
  int kw = static_cast<int>(s.KW.split(tap)), kh = static_cast<int>(tap);

  // Stages are filled in order.
  const auto fill = [&](int stage) {
    float* const a_to = shared + stage * floats + line * pitch + chunk;
    float* const b_to = a_to + Tile::rows * pitch;
    const int down = kh * s.dilation_h, across = kw * s.dilation_w, shift = (down * s.W + across) * s.x_pitch + c;
    const bool summed = k < end;
#pragma unroll
    for (int i = 0; i < a_count; ++i) {
      const bool inside = summed & (static_cast<unsigned>(top[i] + down) < static_cast<unsigned>(s.H)) &
                          (static_cast<unsigned>(left[i] + across) < static_cast<unsigned>(s.W));
      copy_async<4, true>(a_to + i * step * pitch, x + (inside ? base[i] + shift : 0), inside);
    }
#pragma unroll
    for (int i = 0; i < b_count; ++i) {
      const int o = line + i * step;
      const bool inside = summed & (first_column + o < s.O);
      copy_async<4, true>(b_to + i * step * pitch, weight + (inside ? o * s.length + k : 0), inside);
    }
    k += depth;
    for (c += depth; c >= s.C; c -= s.C)
      if (++kw == static_cast<int>(s.KW.value())) {
        kw = 0;
        ++kh;
      }
  };

  const int warp = static_cast<int>(threadIdx.x) / 32;
  Arithmetic<Tile> product(warp / Tile::warps_n * Tile::warp_rows, warp % Tile::warps_n * Tile::warp_columns,
                           static_cast<int>(threadIdx.x) % 32);
  const int steps = max(0, (end - begin + depth - 1) / depth);
#pragma unroll
  for (int stage = 0; stage < stages - 1; ++stage) {
    if (stage < steps) fill(stage);
    commit_copies();
  }
#pragma unroll 1
  for (int at = 0; at < steps; ++at) {
    await_copies<stages - 2>();
    __syncthreads();
    if (at + stages - 1 < steps) fill((at + stages - 1) % stages);
    commit_copies();
    const float* const stage = shared + at % stages * floats;
    product.add(stage, stage + Tile::rows * pitch);
  }

  const int first_channel = group * s.O;
  if (p.split == 1) {
    float* const y = p.y + first_channel;
    product.each([&](int row, int column, float sum) {
      const int position = first_row + row, o = first_column + column;
      if (position < s.positions && o < s.O)
        y[place_of<(most > 1)>(p, position) + o] = finished(p, sum, first_channel + o);
    });
    return;
  }
  __syncthreads();
  product.each([&](int row, int column, float sum) { shared[row * shared_pitch<Tile> + column] = sum; });
  finish_cluster<Tile, (most > 1)>(p, shared, rank, first_row, first_column, first_channel);
}

using Wide = ImplicitTile<128, 128, 2, 2, 16, 3, 2>;
using Medium = ImplicitTile<128, 64, 4, 1, 16, 3, 3>;
using Slim = ImplicitTile<128, 32, 4, 1, 16, 5, 4>;
using Small = ImplicitTile<64, 64, 4, 2, 16, 6, 3>;

/// The tile, and how many blocks share its sum.
enum class Shape : std::uint8_t { wide, medium, slim, small };
struct Plan {
  Shape shape = Shape::small;
  int split = 1;
  double cycles = 0;
};

template <class Body>
auto with_tile(Shape shape, const Body& body) {
  switch (shape) {
    case Shape::wide:
      return body(Wide{});
    case Shape::medium:
      return body(Medium{});
    case Shape::slim:
      return body(Slim{});
    default:
      return body(Small{});
  }
}

/// Sizes of a convolution of a launch, of one group.
struct Work {
  std::int64_t positions, length;
};

// Estimated cycles of the busiest multiprocessor: its blocks one after the other at the rate that this number of warps
// reaches, but no stage faster than its synchronisation, plus start and end.
template <class Tile>
double cycles(std::span<const Work> all, std::int64_t O, std::int64_t groups, int split, double rate) {
  constexpr double stage_cycles = 150, whole_rate_warps = 8, in_and_out = 1500, exchange = 2000;
  double blocks = 0, stages = 0, longest = 0;  // stages of all blocks
  for (const Work& work : all) {
    const auto of_work =
        static_cast<double>(ceil_div(work.positions, Tile::rows) * ceil_div(O, Tile::columns) * groups * split);
    const auto of_block = static_cast<double>(ceil_div(ceil_div(work.length, split), Tile::depth));
    blocks += of_work, stages += of_work * of_block, longest = std::max(longest, of_block);
  }
  const double on_busiest = std::ceil(blocks / card().multiprocessors);
  const double together = std::min<double>(on_busiest, Tile::resident), rounds = on_busiest / together;
  const double in_block = std::max(stages / blocks, longest / on_busiest);
  const double full = std::min(1.0, together * Tile::warps / whole_rate_warps);
  const double work = on_busiest * in_block * Tile::rows * Tile::columns * Tile::depth / (rate * full);
  return std::max(work, rounds * in_block * stage_cycles) + rounds * in_and_out + (split > 1 ? exchange : 0);
}

inline Plan choose_plan(std::span<const Work> all, std::int64_t O, std::int64_t groups, bool tensor_cores) {
  // Multiply-adds per cycle that each full tile reaches.
  constexpr double float_rates[] = {110, 105, 90, 75}, tf32_rates[] = {250, 220, 160, 130};
  const double* const rates = tensor_cores ? tf32_rates : float_rates;
  Plan best;
  for (const Shape shape : {Shape::wide, Shape::medium, Shape::slim, Shape::small})
    for (int split = 1; split <= (card().overlap ? 8 : 1); split *= 2) {
      const double time = with_tile(
          shape, [&]<class Tile>(Tile) { return cycles<Tile>(all, O, groups, split, rates[static_cast<int>(shape)]); });
      if (best.cycles == 0 || time < best.cycles) best = {shape, split, time};
    }
  return best;
}

/// Like launch(), but not before the previous kernel has ended: few long blocks that overlap with its end would share
/// the multiprocessors that are idle first (strict, 2 x 1024 x 28 x 28 to 127 by 7x7 at stride 2: 732
/// microseconds, not 316).
template <class Parameter>
void launch_apart(const Context& context, const Grid& grid, void (*kernel)(Parameter),
                  const std::remove_cvref_t<Parameter>& argument) {
  if (grid.empty()) return;
  allow_shared(reinterpret_cast<const void*>(kernel), grid.shared);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {grid.cluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks, config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared, config.stream = stream_of(context);
  config.attrs = &cluster, config.numAttrs = grid.cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, argument), "launching a kernel", grid.where);
}

/// Runs the first `count` of them, whose sizes and arrays are there, by a plan. `apart`: see launch_apart(); gradients
/// run beside each other instead.
template <int most>
void run(const Context& context, Convolutions<most> all, int count, std::int64_t groups, bool tensor_cores,
         const Plan& plan, bool apart) {
  with_tile(plan.shape, [&]<class Tile>(Tile) {
    std::int64_t rows = 0;
    for (int i = 0; i < count; ++i) {
      Forward& p = all.of[i];
      p.tiles_n = static_cast<int>(ceil_div(p.sizes.O, Tile::columns)), p.split = plan.split;
      p.per_split = static_cast<int>(ceil_div(ceil_div(p.sizes.length, plan.split), Tile::depth)) * Tile::depth;
      rows = std::max<std::int64_t>(rows, p.sizes.positions);
    }
    const auto kernel =
        tensor_cores ? forward_kernel<TensorCores, Tile, most> : forward_kernel<MultiplyAdds, Tile, most>;
    const std::int64_t blocks = ceil_div(rows, Tile::rows) * all.of[0].tiles_n * plan.split;
    Grid grid(dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(groups), static_cast<unsigned>(count)),
              Tile::threads,
              tensor_cores ? shared_bytes<TensorCores<Tile>, Tile> : shared_bytes<MultiplyAdds<Tile>, Tile>);
    grid.cluster = static_cast<unsigned>(plan.split);
    constexpr double many_cycles = 20000;
    const bool few = blocks * groups * count <= Tile::resident * card().multiprocessors;
    if (apart && few && plan.cycles > many_cycles) return launch_apart(context, grid, kernel, all);
    launch(context, grid, kernel, all);
  });
}

}  // namespace tern::cuda::convolution::implicit_product
