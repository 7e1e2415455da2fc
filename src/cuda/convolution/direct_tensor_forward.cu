#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/convolution/direct_tensor.cuh"

namespace tern::cuda::convolution {
namespace {

/// Rows are output positions, columns output channels, k is (channel, tap) as the weight has it.
struct ForwardCut {
  int columns = 0;            // of a block; 0: nothing fits
  int tiles = 1, splits = 1;  // of 32 rows in a block; of the sum over k
  int images = 1;             // that a block may touch
  int image = 0, planes = 0;  // floats of an image, and of all of them, in shared memory
  std::size_t shared = 0;
};

template <int Across>
__global__ void __launch_bounds__(tensor_threads)
    tensor_forward_kernel(float* y, const float* __restrict__ x, const float* __restrict__ weight, const float* bias,
                          const __grid_constant__ TensorSizes s, const __grid_constant__ ForwardCut cut,
                          Activation activation) {
  extern __shared__ float4 memory[];
  const int depth = (s.length + 7) / 8 * 8, pitch = depth + 4;
  int* const steps = reinterpret_cast<int*>(memory);
  float* const shift = reinterpret_cast<float*>(memory) + depth;
  float* const planes = shift + Across * 8;
  float* const weights = planes + cut.planes;
  const int row_first = static_cast<int>(blockIdx.x) * cut.tiles * tensor_rows;
  const int rows = min(cut.tiles * tensor_rows, s.N * s.area - row_first);
  const int image_first = static_cast<int>(s.of_area.quotient(row_first));
  const int images = static_cast<int>(s.of_area.quotient(row_first + rows - 1)) - image_first + 1;
  const int o_first = static_cast<int>(blockIdx.y) * cut.columns, o_count = min(cut.columns, s.O - o_first);

  for (int k = static_cast<int>(threadIdx.x); k < depth; k += tensor_threads) {
    int c, tap, kh, kw;
    s.of_window.split(k, c, tap);
    s.of_side.split(tap, kh, kw);
    steps[k] = k < s.length ? c * s.plane + kh * s.pitch + kw : 0;
  }
  begin_kernel();
  if (threadIdx.x < Across * 8)
    shift[threadIdx.x] =
        bias != nullptr && static_cast<int>(threadIdx.x) < o_count ? bias[o_first + threadIdx.x] : 0.0f;
  stage_images(planes, x + static_cast<std::int64_t>(image_first) * s.C * s.H * s.W, images, s.C, cut.image, s);
  stage_rows<8>(weights, weight + static_cast<std::int64_t>(o_first) * s.length, o_count, s.length, s.length, pitch,
                depth / 4);
  __syncthreads();

  float* const to = y + (static_cast<std::int64_t>(image_first) * s.O + o_first) * s.area;
  // Where row r of the block is: its image among those of the block, and its position.
  const auto place = [&](int r, int& image, int& position) {
    s.of_area.split(row_first + r, image, position);
    image -= image_first;
  };
  const auto finish = [&](int row, int column, float total) {
    if (row >= rows || column >= o_count) return;
    int image, position;
    place(row, image, position);
    to[(image * s.O + column) * s.area + position] = activate(total + shift[column], activation);
  };
  const int warp = static_cast<int>(threadIdx.x) / 32, split = warp % cut.splits, tile_step = tensor_warps / cut.splits;
  const auto sums_of = [&](WarpTile<Across>& sums, int tile) {
    int row_at[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = tile * tensor_rows + i * 8 + sums.g;
      int image, position, oh, ow;
      place(min(row, rows - 1), image, position);
      s.of_width.split(position, oh, ow);
      row_at[i] = image * cut.image + oh * s.pitch + ow;
    }
#pragma unroll 2
    for (int k = split * 8; k < depth; k += cut.splits * 8) {
      const int step[2]{steps[k + sums.t], steps[k + sums.t + 4]};
      const bool inside[2]{k + sums.t < s.length, k + sums.t + 4 < s.length};
      sums.add(planes, row_at, step, inside, [&](int at, int column) { return weights[column * pitch + k + at]; });
    }
  };
  if (cut.splits > 1) {
    WarpTile<Across> sums;
    if (warp / cut.splits < cut.tiles) sums_of(sums, warp / cut.splits);
    add_warps(planes, sums, cut.tiles, cut.splits, rows, finish);
    return;
  }
  for (int tile = warp; tile < cut.tiles && tile * tensor_rows < rows; tile += tile_step) {
    WarpTile<Across> sums;
    sums_of(sums, tile);
    each_by_rows(weights + Across * 8 * pitch + warp * slab, sums,
                 [&](int row, int column, float sum) { finish(tile * tensor_rows + row, column, sum); });
  }
}

ForwardCut find_cut(const Problem& p) {
  const TensorSizes s = tensor_sizes(p);
  const int depth = padded(s.length, 8);
  const std::int64_t rows = p.positions();
  ForwardCut best;
  double best_cost = std::numeric_limits<double>::max();
  for (const int columns : column_choices)
    for (int tiles = 1; tiles <= 64; tiles *= 2) {
      if (columns > 8 && columns - 8 >= padded(s.O, 8)) continue;  // a smaller one holds them
      ForwardCut cut;
      cut.columns = columns, cut.tiles = tiles;
      while (cut.splits * 2 * tiles <= tensor_warps && cut.splits * 64 <= depth) cut.splits *= 2;
      const std::int64_t covered = std::int64_t{tiles} * tensor_rows;
      cut.images = static_cast<int>(
          std::min(p.N, covered % s.area == 0 ? covered / s.area : (covered + s.area - 2) / s.area + 1));
      if (std::int64_t{cut.images} * s.C * s.plane > (1 << 20)) continue;
      cut.image = padded(std::int64_t{s.C} * s.plane, 4), cut.planes = cut.images * cut.image;
      const std::size_t head = static_cast<std::size_t>(depth + columns) * sizeof(float);
      const std::size_t staged = static_cast<std::size_t>(cut.planes + columns * (depth + 4)) * sizeof(float);
      cut.shared = head + (cut.splits == 1 ? staged + tensor_warps * slab * sizeof(float)
                                           : std::max(staged, split_bytes(columns, tiles, cut.splits)));
      if (cut.shared > shared_limit()) continue;
      const auto blocks = static_cast<double>(ceil_div(rows, covered) * ceil_div(s.O, columns));
      const double steps = depth / 8, across = columns / 8;
      const double staging = static_cast<double>(staged) / 32;
      const double turns = std::ceil(static_cast<double>(tiles * cut.splits) / tensor_warps);
      const double work = 865 + 1.09 * staging + tiles * (steps * (3.66 + 0.536 * across) + across * 6.23);
      const double alone = 2080 + std::ceil(steps / cut.splits) * turns * (201 + 3.94 * across) + turns * across * 391 +
                           (cut.splits > 1 ? 656 : 0);
      const double cost = tensor_cost(blocks, work, alone, cut.shared);
      if (cost < best_cost) {
        best = cut;
        best_cost = cost;
      }
    }
  return best;
}

ForwardCut chosen_cut(const Problem& problem) {
  struct Rule;
  return remembered<Rule>(problem, [&] { return find_cut(problem); });
}

}  // namespace

bool fits_tensor_forward(const Problem& problem) {
  const std::int64_t most = short_sums(problem) ? 1 << 13 : 1 << 30;
  return small_window(problem) && on_tensor_cores(problem) && problem.positions() < most &&
         chosen_cut(problem).columns > 0;
}

void run_tensor_forward(Context& context, const Problem& problem, const Arrays& arrays) {
  const ForwardCut cut = chosen_cut(problem);
  with_columns(cut.columns, [&](auto across) {
    constexpr auto kernel = tensor_forward_kernel<across.value>;
    const dim3 blocks(static_cast<unsigned>(ceil_div(problem.positions(), std::int64_t{cut.tiles} * tensor_rows)),
                      static_cast<unsigned>(ceil_div(problem.O, cut.columns)));
    launch(context, Grid(blocks, tensor_threads, cut.shared), kernel, static_cast<float*>(arrays.y),
           static_cast<const float*>(arrays.x), static_cast<const float*>(arrays.weight),
           static_cast<const float*>(arrays.bias), tensor_sizes(problem), cut, problem.activation);
  });
}

}  // namespace tern::cuda::convolution
