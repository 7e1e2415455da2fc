#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/convolution/direct_tensor.cuh"

namespace tern::cuda::convolution {
namespace {

/// Rows are (channel, tap), columns output channels, k is the positions of the images of a slice.
struct GradWeightCut {
  int columns = 0;            // of a block; 0: nothing fits
  int channels = 1;           // of x, in a block
  int tiles = 1, splits = 1;  // of 32 rows in a block; of the sum over k
  int slices = 1, images_per_slice = 1;
  int together = 1;  // images in shared memory at a time
  int planes = 0;    // floats of them, an image's
  std::size_t shared = 0;
};

template <int Across>
__global__ void __launch_bounds__(tensor_threads, 2)
    tensor_grad_weight_kernel(float* partials, const float* __restrict__ g, const float* __restrict__ x,
                              const __grid_constant__ TensorSizes s, const __grid_constant__ GradWeightCut cut) {
  extern __shared__ float4 memory[];
  const int depth = (s.area + 7) / 8 * 8, pitch = depth + 4;
  int* const steps = reinterpret_cast<int*>(memory);
  float* const planes = reinterpret_cast<float*>(memory) + depth;
  float* const staged_g = planes + cut.together * cut.planes;
  const int slice = static_cast<int>(blockIdx.x), c_first = static_cast<int>(blockIdx.y) * cut.channels;
  const int o_first = static_cast<int>(blockIdx.z) * cut.columns, o_count = min(cut.columns, s.O - o_first);
  const int channels = min(cut.channels, s.C - c_first), rows = channels * s.window;
  const int begin = slice * cut.images_per_slice, end = min(begin + cut.images_per_slice, s.N);
  const int o_rows = min(cut.columns, s.O);
  const std::int64_t sums_of_slice = static_cast<std::int64_t>(s.O) * s.length + s.O;
  float* const to = partials + slice * sums_of_slice;

  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (c_first >= s.C) {
    // The block behind those of the channels sums the bias, of what is not rounded.
    begin_kernel();
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int o = o_first + warp; o < o_first + o_count; o += tensor_warps) {
      const float sum =
          sum_channel(g + (static_cast<std::int64_t>(begin) * s.O + o) * s.area, end - begin, s.O * s.area, s.of_area);
      if (lane == 0) to[sums_of_slice - s.O + o] = sum;
    }
    return;
  }
  for (int k = static_cast<int>(threadIdx.x); k < depth; k += tensor_threads) {
    int oh, ow;
    s.of_width.split(k, oh, ow);
    steps[k] = k < s.area ? oh * s.pitch + ow : 0;
  }
  WarpTile<Across> sums;
  const int split = warp % cut.splits, tile = warp / cut.splits;
  int row_at[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int c, tap, kh, kw;
    s.of_window.split(min(tile * tensor_rows + i * 8 + sums.g, rows - 1), c, tap);
    s.of_side.split(tap, kh, kw);
    row_at[i] = c * s.plane + kh * s.pitch + kw;
  }
  begin_kernel();
  for (int first = begin; first < end; first += cut.together) {
    if (first > begin) __syncthreads();
    const int images = min(cut.together, end - first);
    stage_images(planes, x + (static_cast<std::int64_t>(first) * s.C + c_first) * s.H * s.W, images, channels,
                 cut.planes, s);
    // The rows of all channels follow each other from image to image. Those of columns beyond o_count are not written.
    const float* const from_g = g + (static_cast<std::int64_t>(first) * s.O + o_first) * s.area;
    const int runs = o_count == s.O ? 1 : images;
    for (int i = 0; i < runs; ++i)
      stage_rows<8>(staged_g + i * o_rows * pitch, from_g + i * s.O * s.area, o_count * images / runs, s.area, s.area,
                    pitch, depth / 4);
    __syncthreads();
    if (tile >= cut.tiles || tile * tensor_rows >= rows) continue;
    for (int i = 0; i < images; ++i) {
      const float* const from = planes + i * cut.planes;
      const float* const right = staged_g + i * o_rows * pitch;
#pragma unroll 2
      for (int k = split * 8; k < depth; k += cut.splits * 8) {
        const int step[2]{steps[k + sums.t], steps[k + sums.t + 4]};
        const bool inside[2]{k + sums.t < s.area, k + sums.t + 4 < s.area};
        sums.add(from, row_at, step, inside, [&](int at, int column) { return right[column * pitch + k + at]; });
      }
    }
  }
  add_warps(reinterpret_cast<float*>(memory), sums, cut.tiles, cut.splits, rows, [&](int row, int column, float total) {
    if (column < o_count) to[static_cast<std::int64_t>(o_first + column) * s.length + c_first * s.window + row] = total;
  });
}

GradWeightCut find_cut(const Problem& p) {
  const TensorSizes s = tensor_sizes(p);
  const int depth = padded(s.area, 8);
  GradWeightCut best;
  double best_cost = std::numeric_limits<double>::max();
  for (const int columns : column_choices) {
    if (columns > 8 && columns - 8 >= padded(s.O, 8)) continue;  // a smaller one holds them
    for (int chunks = 1; chunks <= s.C; ++chunks) {
      GradWeightCut cut;
      cut.columns = columns, cut.channels = static_cast<int>(ceil_div(s.C, chunks));
      if (cut.channels * s.window > tensor_warps * tensor_rows) continue;
      cut.tiles = padded(cut.channels * s.window, tensor_rows) / tensor_rows;
      while (cut.splits * 2 * cut.tiles <= tensor_warps && cut.splits * 32 <= depth) cut.splits *= 2;
      cut.planes = padded(cut.channels * s.plane, 4);
      const std::size_t image = static_cast<std::size_t>(cut.planes + columns * (depth + 4)) * sizeof(float);
      const std::size_t table = static_cast<std::size_t>(depth) * sizeof(float);
      if (table + image > shared_limit()) continue;
      for (int per_slice = 1; per_slice <= p.N; per_slice = per_slice < 8 ? per_slice + 1 : per_slice * 5 / 4) {
        cut.images_per_slice = per_slice, cut.slices = static_cast<int>(ceil_div(p.N, per_slice));
        if (cut.slices > 256) continue;
        cut.together =
            std::min(per_slice, static_cast<int>((std::min<std::size_t>(shared_limit(), 110 * 1024) - table) / image));
        cut.together = std::max(cut.together, 1);
        cut.shared = std::max(table + static_cast<std::size_t>(cut.together) * image,
                              split_bytes(columns, cut.tiles, cut.splits));
        const auto blocks =
            static_cast<double>(cut.slices * (ceil_div(s.C, cut.channels) + 1) * ceil_div(s.O, columns));
        const double steps = depth / 8, across = columns / 8;
        const double staging = static_cast<double>(image) * per_slice / 32;
        // The rows of some of the output channels are copied image by image.
        const double waits =
            std::ceil(static_cast<double>(per_slice) / cut.together) * 1340 + (columns < s.O ? per_slice * 981 : 0);
        const double parts = static_cast<double>(cut.tiles * cut.splits) * across * 21.2;
        const double work = 335 + 0.982 * staging + per_slice * steps * cut.tiles * (10.7 + 0.369 * across) + parts;
        const double alone = 1840 + 1.34 * staging + waits +
                             per_slice * std::ceil(steps / cut.splits) * (49.7 + 4.98 * across) + 0.938 * parts;
        const double adding =
            static_cast<double>(cut.slices) * static_cast<double>(p.weights()) * 8 / (card().multiprocessors * 9.32);
        const double cost = tensor_cost(blocks, work, alone, cut.shared) + adding;
        if (cost < best_cost) {
          best = cut;
          best_cost = cost;
        }
      }
    }
  }
  return best;
}

GradWeightCut chosen_cut(const Problem& problem) {
  struct Rule;
  return remembered<Rule>(problem, [&] { return find_cut(problem); });
}

}  // namespace

bool fits_tensor_grad_weight(const Problem& problem) {
  return small_window(problem) && on_tensor_cores(problem) &&
         !(short_sums(problem) && problem.positions() >= 1 << 15) && chosen_cut(problem).columns > 0;
}

std::int64_t tensor_slices(const Problem& problem) { return chosen_cut(problem).slices; }

void run_tensor_grad_weight(Context& context, const Problem& problem, const Arrays& arrays, float* partials) {
  const GradWeightCut cut = chosen_cut(problem);
  with_columns(cut.columns, [&](auto across) {
    constexpr auto kernel = tensor_grad_weight_kernel<across.value>;
    const dim3 blocks(static_cast<unsigned>(cut.slices), static_cast<unsigned>(ceil_div(problem.C, cut.channels) + 1),
                      static_cast<unsigned>(ceil_div(problem.O, cut.columns)));
    launch(context, Grid(blocks, tensor_threads, cut.shared), kernel, partials, static_cast<const float*>(arrays.y),
           static_cast<const float*>(arrays.x), tensor_sizes(problem), cut);
  });
}

}  // namespace tern::cuda::convolution
