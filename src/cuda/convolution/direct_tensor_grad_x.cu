#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/convolution/direct_tensor.cuh"

namespace tern::cuda::convolution {
namespace {

constexpr int grad_x_across = 4;  // columns of 8 in a warp's tile

/// Rows are output positions of an image, columns (channel, tap), k output channels: what every output sends to every
/// element of its window. These are added up, tap by tap, for every element of the gradient.
struct GradXCut {
  int channels = 0;                           // of x, in a block; 0: nothing fits
  int images = 1;                             // one after another
  int g_pitch = 0, w_pitch = 0, p_pitch = 0;  // of the gradient of y, the weights, the products in shared memory
  std::size_t shared = 0;
};

template <int K>
__global__ void __launch_bounds__(tensor_threads)
    tensor_grad_x_kernel(float* grad_x, const float* __restrict__ g, const float* __restrict__ weight,
                         const __grid_constant__ TensorSizes s, const __grid_constant__ GradXCut cut,
                         Divisor<std::uint32_t> of_image, Divisor<std::uint32_t> of_row) {
  extern __shared__ float4 memory[];
  const int depth = (s.O + 7) / 8 * 8;
  float* const staged_g = reinterpret_cast<float*>(memory);
  float* const weights = staged_g + depth * cut.g_pitch;
  float* const products = weights + depth * cut.w_pitch;
  const int image_first = static_cast<int>(blockIdx.x) * cut.images, image_end = min(image_first + cut.images, s.N);
  const int c_first = static_cast<int>(blockIdx.y) * cut.channels;
  const int channels = min(cut.channels, s.C - c_first), columns = channels * K * K;
  const int row_tiles = (s.area + tensor_rows - 1) / tensor_rows;
  const int column_tiles = (columns + grad_x_across * 8 - 1) / (grad_x_across * 8);

  // Beyond the channels both are 0.
  for (int i = static_cast<int>(threadIdx.x); i < (depth - s.O) * cut.g_pitch; i += tensor_threads)
    staged_g[s.O * cut.g_pitch + i] = 0;
  for (int i = static_cast<int>(threadIdx.x); i < (depth - s.O) * cut.w_pitch; i += tensor_threads)
    weights[s.O * cut.w_pitch + i] = 0;
  begin_kernel();
  stage_rows<8>(weights, weight + c_first * K * K, s.O, columns, s.length, cut.w_pitch,
                column_tiles * grad_x_across * 2);
  for (int n = image_first; n < image_end; ++n) {
    stage_rows<8>(staged_g, g + static_cast<std::int64_t>(n) * s.O * s.area, s.O, s.area, s.area, cut.g_pitch,
                  row_tiles * tensor_rows / 4);
    __syncthreads();

    for (int tile = static_cast<int>(threadIdx.x) / 32; tile < row_tiles * column_tiles; tile += tensor_warps) {
      WarpTile<grad_x_across> sums;
      const int row_first = tile % row_tiles * tensor_rows, column_first = tile / row_tiles * grad_x_across * 8;
      int row_at[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) row_at[i] = row_first + i * 8 + sums.g;
      constexpr bool inside[2]{true, true};
#pragma unroll 2
      for (int k = 0; k < depth; k += 8) {
        const int step[2]{(k + sums.t) * cut.g_pitch, (k + sums.t + 4) * cut.g_pitch};
        sums.add(staged_g, row_at, step, inside,
                 [&](int at, int column) { return weights[(k + at) * cut.w_pitch + column_first + column]; });
      }
      sums.each([&](int row, int column, float sum) {
        if (row_first + row < s.area && column_first + column < columns)
          products[(column_first + column) * cut.p_pitch + row_first + row] = sum;
      });
    }
    __syncthreads();

    float* const to = grad_x + (static_cast<std::int64_t>(n) * s.C + c_first) * s.H * s.W;
    for (int e = static_cast<int>(threadIdx.x); e < channels * s.H * s.W; e += tensor_threads) {
      int c, rest, h, w;
      of_image.split(e, c, rest);
      of_row.split(rest, h, w);
      const float* const from = products + c * K * K * cut.p_pitch + (h + s.pad_h) * s.OW + w + s.pad_w;
      float total = 0;
#pragma unroll
      for (int kh = 0; kh < K; ++kh) {
        const int oh = h + s.pad_h - kh;
#pragma unroll
        for (int kw = 0; kw < K; ++kw) {
          const int ow = w + s.pad_w - kw;
          if (oh >= 0 && oh < s.OH && ow >= 0 && ow < s.OW) total += from[(kh * K + kw) * cut.p_pitch - kh * s.OW - kw];
        }
      }
      to[e] = total;
    }
  }
}

GradXCut find_cut(const Problem& p) {
  const TensorSizes s = tensor_sizes(p);
  const int depth = padded(s.O, 8), row_tiles = padded(s.area, tensor_rows) / tensor_rows;
  GradXCut best;
  double best_cost = std::numeric_limits<double>::max();
  for (int channels = 1; channels <= s.C && channels * s.window <= 2048; ++channels) {
    GradXCut cut;
    cut.channels = channels;
    const int columns = channels * s.window;
    // Neighbouring lanes read, and write, different banks.
    cut.g_pitch = row_tiles * tensor_rows + 8, cut.w_pitch = padded(columns, 32) + 8;
    cut.p_pitch = padded(s.area, 16) + 4;
    cut.shared = static_cast<std::size_t>(depth * (cut.g_pitch + cut.w_pitch) + columns * cut.p_pitch) * sizeof(float);
    if (cut.shared > shared_limit()) continue;
    for (int images = 1; images <= 8; images *= 2) {
      cut.images = images;
      const auto blocks = static_cast<double>(ceil_div(p.N, images) * ceil_div(s.C, channels));
      const double tiles = row_tiles * (padded(columns, 32) / 32), steps = depth / 8;
      const double rows = depth * cut.g_pitch * 0.0921;
      // Whole packs of the weight or not.
      const double weights = depth * cut.w_pitch / (channels % 4 == 0 ? 4.81 : 3.75);
      const double adding = static_cast<double>(channels * s.H * s.W) * s.window / 62.3;
      const double work = 153 + weights + images * (rows + tiles * (steps * 19.4 + 38.1) + adding);
      const double alone = 3520 + 0.479 * weights +
                           images * (1160 + rows + std::ceil(tiles / tensor_warps) * (steps * 162 + 234) + adding);
      const double cost = tensor_cost(blocks, work, alone, cut.shared);
      if (cost < best_cost) {
        best = cut;
        best_cost = cost;
      }
    }
  }
  return best;
}

GradXCut chosen_cut(const Problem& problem) {
  struct Rule;
  return remembered<Rule>(problem, [&] { return find_cut(problem); });
}

}  // namespace

bool fits_tensor_grad_x(const Problem& problem) {
  return small_window(problem) && on_tensor_cores(problem) && chosen_cut(problem).channels > 0;
}

void run_tensor_grad_x(Context& context, const Problem& problem, const Arrays& arrays) {
  const GradXCut cut = chosen_cut(problem);
  const auto kernel = problem.KH == 3 ? tensor_grad_x_kernel<3> : tensor_grad_x_kernel<5>;
  const dim3 blocks(static_cast<unsigned>(ceil_div(problem.N, cut.images)),
                    static_cast<unsigned>(ceil_div(problem.C, cut.channels)));
  launch(context, Grid(blocks, tensor_threads, cut.shared), kernel, static_cast<float*>(arrays.x),
         static_cast<const float*>(arrays.y), static_cast<const float*>(arrays.weight), tensor_sizes(problem), cut,
         Divisor<std::uint32_t>(problem.H * problem.W), Divisor<std::uint32_t>(problem.W));
}

}  // namespace tern::cuda::convolution
