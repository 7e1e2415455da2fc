// The gradient of the weight as a matrix product: rows are output channels, columns are (kernel row, kernel column,
// input channel), and the sum runs over the positions of all images. Both factors are read as they lie in memory, a
// position's channels side by side; tiles pass through shared memory in a ring of stages that cp.async fills ahead.

#include "cuda/conv_tensor_cores.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/fused_rows.cuh"

namespace tern::cuda {
namespace {

constexpr int skew = 8;  // floats between rows in shared memory, so that fragments meet no bank conflict

/// A block's part of the weight, its warps, the positions of a stage, and how many blocks share a multiprocessor.
template <int tile_rows, int tile_columns, int warps_by_row, int warps_by_column, int stage_depth, int stage_count,
          int blocks_resident>
struct Tile {
  static constexpr int rows = tile_rows, columns = tile_columns, warps_m = warps_by_row, warps_n = warps_by_column,
                       depth = stage_depth, stages = stage_count, resident = blocks_resident;
  static constexpr int threads = 32 * warps_m * warps_n;
  static constexpr int blocks_m = rows / warps_m / 32, blocks_n = columns / warps_n / 32;  // of 32 x 32, per warp
  static constexpr int g_pitch = rows + skew, x_pitch = columns + skew, stage_floats = depth * (g_pitch + x_pitch);
  static constexpr std::size_t shared_bytes = sizeof(float) * stages * stage_floats;
};

struct WeightGradient {
  const float *g, *x;
  float* out;  // a weight per slice
  int positions, per_slice, O, C, columns, H, W, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int g_pitch, x_pitch;  // elements from a position to the next
  Divisor<std::uint32_t> OH, OW, KW, channels;
  int slices;
};

__device__ __forceinline__ void copy_async(float* to, const float* from, bool inside) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = inside ? 16 : 0;  // the rest of the 16 becomes zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
#endif
}
__device__ __forceinline__ void commit_stage() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int newer>
__device__ __forceinline__ void await_stage() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(newer) : "memory");
#endif
}

__device__ __forceinline__ void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::resident) grad_weight_kernel(WeightGradient p) {
  constexpr int depth = Tile::depth, stages = Tile::stages, blocks_m = Tile::blocks_m, blocks_n = Tile::blocks_n,
                g_pitch = Tile::g_pitch, x_pitch = Tile::x_pitch, stage_floats = Tile::stage_floats;
  extern __shared__ float4 shared_vectors[];
  float* const shared = reinterpret_cast<float*>(shared_vectors);
  begin_kernel();

  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(blockIdx.z) / p.slices, slice = static_cast<int>(blockIdx.z) % p.slices;
  const int first_row = static_cast<int>(blockIdx.y) * Tile::rows,
            first_column = static_cast<int>(blockIdx.x) * Tile::columns;
  const int begin = slice * p.per_slice, end = min(p.positions, begin + p.per_slice);

  // What this thread copies: of g, four channels of a position each time.
  constexpr int g_chunks = Tile::rows / 4, g_count = depth * g_chunks / Tile::threads;
  static_assert(depth * g_chunks % Tile::threads == 0);
  const float* const g_from = p.g + static_cast<std::int64_t>(group) * p.O + first_row;
  // Of x, four channels under one element of the kernel, of every x_step-th position; a warp has one position at a
  // time.
  constexpr int x_chunks = Tile::columns / 4, x_step = Tile::threads / x_chunks, x_count = depth / x_step;
  const int x_column = static_cast<int>(threadIdx.x) % x_chunks * 4, x_row = static_cast<int>(threadIdx.x) / x_chunks;
  const int column = first_column + x_column;
  const bool column_inside = column < p.columns;
  auto tap = static_cast<std::uint32_t>(column_inside ? column : 0);
  const auto c = static_cast<int>(p.channels.split(tap));
  const int kw = static_cast<int>(p.KW.split(tap)), kh = static_cast<int>(tap);
  const int shift_h = kh * p.dilation_h - p.pad_h, shift_w = kw * p.dilation_w - p.pad_w;
  const float* const x_from = p.x + static_cast<std::int64_t>(group) * p.C + c;

  const auto fill = [&](int stage, int position) {
    float* const g_to = shared + stage * stage_floats;
    float* const x_to = g_to + depth * g_pitch;
#pragma unroll
    for (int i = 0; i < g_count; ++i) {
      const int chunk = static_cast<int>(threadIdx.x) + i * Tile::threads;
      const int row = chunk / g_chunks, at_row = chunk % g_chunks * 4, at = position + row;
      const bool inside = (first_row + at_row < p.O) & (at < end);
      copy_async(g_to + row * g_pitch + at_row, g_from + (inside ? at * p.g_pitch + at_row : 0), inside);
    }
    // A few lanes find where the warp's positions lie, and tell the others.
    std::uint32_t n = static_cast<std::uint32_t>(position + x_row + lane % x_count * x_step);
    const int own_w = static_cast<int>(p.OW.split(n)) * p.stride_w;
    const int own_h = static_cast<int>(p.OH.split(n)) * p.stride_h;
    const int own_image = static_cast<int>(n) * p.H;
#pragma unroll
    for (int i = 0; i < x_count; ++i) {
      const int h = __shfl_sync(~0u, own_h, i) + shift_h, w = __shfl_sync(~0u, own_w, i) + shift_w;
      const int image = __shfl_sync(~0u, own_image, i);
      const bool inside = column_inside & (position + x_row + i * x_step < end) &
                          (static_cast<unsigned>(h) < static_cast<unsigned>(p.H)) &
                          (static_cast<unsigned>(w) < static_cast<unsigned>(p.W));
      const int from = inside ? ((image + h) * p.W + w) * p.x_pitch : 0;
      copy_async(x_to + (x_row + i * x_step) * x_pitch + x_column, x_from + from, inside);
    }
  };

  const int in_m = warp / Tile::warps_n * blocks_m * 32, in_n = warp % Tile::warps_n * blocks_n * 32;
  const int quad = lane / 4, place = lane % 4;
  float sums[blocks_m][blocks_n][2][4][4] = {};

  const int steps = max(0, (end - begin + depth - 1) / depth);
#pragma unroll
  for (int stage = 0; stage < stages - 1; ++stage) {
    if (stage < steps) fill(stage, begin + stage * depth);
    commit_stage();
  }
  for (int step = 0; step < steps; ++step) {
    await_stage<stages - 2>();
    __syncthreads();
    if (step + stages - 1 < steps) fill((step + stages - 1) % stages, begin + (step + stages - 1) * depth);
    commit_stage();
    const float* const g_at = shared + step % stages * stage_floats + place * g_pitch + in_m + quad * 2;
    const float* const x_at = shared + step % stages * stage_floats + depth * g_pitch + place * x_pitch + in_n + quad;
#pragma unroll
    for (int k = 0; k < depth; k += 8) {
      // Which row of a fragment is which row of g is free: pairs of neighbours arrive in the registers where they are
      // wanted. The multiplication reads the upper 19 bits of each float.
      std::uint32_t a[blocks_m][2][4], b[blocks_n][4][2];
#pragma unroll
      for (int m = 0; m < blocks_m * 2; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const auto pair = load<2>(reinterpret_cast<const std::uint32_t*>(g_at + (k + half * 4) * g_pitch + m * 16));
          a[m / 2][m % 2][half * 2] = pair.value[0];
          a[m / 2][m % 2][half * 2 + 1] = pair.value[1];
        }
#pragma unroll
      for (int n = 0; n < blocks_n * 4; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          b[n / 4][n % 4][half] = *reinterpret_cast<const std::uint32_t*>(x_at + (k + half * 4) * x_pitch + n * 8);
#pragma unroll
      for (int m = 0; m < blocks_m; ++m)
#pragma unroll
        for (int n = 0; n < blocks_n; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) multiply_add(sums[m][n][i][j], a[m][i], b[n][j]);
    }
  }

  float* const out = p.out + (static_cast<std::int64_t>(slice) * gridDim.z / p.slices + group) * p.O * p.columns;
#pragma unroll
  for (int m = 0; m < blocks_m * 2; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = first_row + in_m + m * 16 + quad * 2 + i;
      if (row >= p.O) continue;
#pragma unroll
      for (int n = 0; n < blocks_n * 4; ++n) {
        const int to = first_column + in_n + n * 8 + place * 2;
        if (to >= p.columns) continue;
        const float* const sum = sums[m / 2][n / 4][m % 2][n % 4] + i * 2;
        store(out + static_cast<std::int64_t>(row) * p.columns + to, Pack<float, 2>{{sum[0], sum[1]}});
      }
    }
}

using Wide = Tile<128, 128, 2, 2, 16, 5, 2>;
using Medium = Tile<96, 128, 1, 4, 32, 3, 2>;
using Narrow = Tile<64, 128, 2, 2, 32, 3, 2>;
using Slim = Tile<32, 256, 1, 4, 16, 4, 2>;

constexpr std::size_t largest_shared_bytes =
    std::max({Wide::shared_bytes, Medium::shared_bytes, Narrow::shared_bytes, Slim::shared_bytes});

/// The tile for so many output channels.
template <class Body>
auto with_tile(const ConvProblem& problem, const Body& body) {
  const std::int64_t O = problem.O / problem.groups;
  // By what the rows beyond O would cost: smaller tiles reach a smaller part of the rate.
  const auto cost = [O](int rows, double rate) { return static_cast<double>(ceil_div(O, rows) * rows) / rate; };
  if (O <= 32) return body(Slim{});
  const double wide = cost(128, 1), medium = cost(96, 0.88), narrow = cost(64, 0.78);
  if (narrow < std::min(wide, medium)) return body(Narrow{});
  if (medium < wide) return body(Medium{});
  return body(Wide{});
}

template <class Tile>
std::int64_t tiles_of(const ConvProblem& problem) {
  const std::int64_t columns = problem.KH * problem.KW * (problem.C / problem.groups);
  return ceil_div(problem.O / problem.groups, Tile::rows) * ceil_div(columns, Tile::columns) * problem.groups;
}

// The number of slices with the least time: the card is filled in whole waves of blocks, and every slice is a weight
// that is written and read once more. Rates of an H200, in multiply-adds and floats a microsecond.
template <class Tile>
std::int64_t slices_of(const ConvProblem& problem) {
  constexpr double multiply_adds_rate = 60e6, floats_rate = 0.4e6;
  const std::int64_t slots = std::int64_t{Tile::resident} * card().multiprocessors, tiles = tiles_of<Tile>(problem);
  const std::int64_t positions = problem.N * problem.OH * problem.OW, most = std::max<std::int64_t>(1, positions / 64);
  const double weights = static_cast<double>(problem.O * problem.KH * problem.KW * (problem.C / problem.groups));
  const double whole_time = weights * static_cast<double>(positions) / multiply_adds_rate;
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

}  // namespace

bool tensor_core_grad_weight_fits(const ConvProblem& problem) {
  // Places in the arrays are counted in 32 bits.
  constexpr std::int64_t most = std::int64_t{1} << 31;
  return card().major >= 8 && problem.half == Half::grad_weight && !problem.bf16 && problem.tensor_cores &&
         problem.C / problem.groups % 4 == 0 && problem.O / problem.groups % 4 == 0 &&
         problem.N * problem.H * problem.W * problem.x_pitch < most &&
         problem.N * problem.OH * problem.OW * problem.y_pitch < most &&
         card().shared_per_block >= largest_shared_bytes;
}

std::int64_t tensor_core_slices(const ConvProblem& problem) {
  return with_tile(problem, [&]<class Tile>(Tile) { return slices_of<Tile>(problem); });
}

void tensor_core_grad_weight(const Context& context, float* weight, float* partials, const float* x, const float* g,
                             const ConvProblem& problem) {
  const std::int64_t C = problem.C / problem.groups, O = problem.O / problem.groups;
  const std::int64_t columns = problem.KH * problem.KW * C, positions = problem.N * problem.OH * problem.OW;
  const std::int64_t slices = tensor_core_slices(problem), weights = problem.O * columns;
  const auto whole = [](std::int64_t value) { return static_cast<int>(value); };
  const WeightGradient p{.g = g,
                         .x = x,
                         .out = slices == 1 ? weight : partials,
                         .positions = whole(positions),
                         .per_slice = whole(ceil_div(ceil_div(positions, slices), 32) * 32),
                         .O = whole(O),
                         .C = whole(C),
                         .columns = whole(columns),
                         .H = whole(problem.H),
                         .W = whole(problem.W),
                         .stride_h = whole(problem.stride_h),
                         .stride_w = whole(problem.stride_w),
                         .pad_h = whole(problem.pad_h),
                         .pad_w = whole(problem.pad_w),
                         .dilation_h = whole(problem.dilation_h),
                         .dilation_w = whole(problem.dilation_w),
                         .g_pitch = whole(problem.y_pitch),
                         .x_pitch = whole(problem.x_pitch),
                         .OH = Divisor<std::uint32_t>(problem.OH),
                         .OW = Divisor<std::uint32_t>(problem.OW),
                         .KW = Divisor<std::uint32_t>(problem.KW),
                         .channels = Divisor<std::uint32_t>(C),
                         .slices = whole(slices)};
  with_tile(problem, [&]<class Tile>(Tile) {
    const auto kernel = grad_weight_kernel<Tile>;
    allow_shared(reinterpret_cast<const void*>(kernel), Tile::shared_bytes);
    const dim3 blocks(static_cast<unsigned>(ceil_div(columns, Tile::columns)),
                      static_cast<unsigned>(ceil_div(O, Tile::rows)), static_cast<unsigned>(slices * problem.groups));
    launch(context, Grid(blocks, Tile::threads, Tile::shared_bytes), kernel, p);
  });
  if (slices > 1) sum_slices<float>(context, weight, nullptr, partials, slices, weights, 0);
}

}  // namespace tern::cuda
