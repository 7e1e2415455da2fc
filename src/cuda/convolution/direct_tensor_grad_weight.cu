#include "cuda/convolution/direct_tensor.cuh"
#include "cuda/fused_rows.cuh"

namespace tern::cuda::convolution {
namespace {

/// The gradients of `o_count` outputs from o_first on, of `images` from `first` on: the rows of all channels continue
/// from image to image.
__device__ __forceinline__ void stage_gradients(float* staged, const float* __restrict__ g,
                                                const std::uint8_t* __restrict__ index, int first, int images,
                                                int o_first, int o_count, int pitch, const TensorSizes& s) {
  const int area = index == nullptr ? s.area : s.area / 4;
  const std::int64_t from_first = (static_cast<std::int64_t>(first) * s.O + o_first) * area;
  const int runs = o_count == s.O ? 1 : images, rows = o_count * images / runs;
  for (int i = 0; i < runs; ++i) {
    float* const there = staged + i * o_count * pitch;
    const std::int64_t from = from_first + i * s.O * area;
    if (index == nullptr)
      copy_rows(there, g + from, rows, s.area, s.area, pitch);
    else
      spread_rows(there, g + from, index + from, rows, pitch, s);
  }
}

/// Writes the sums of `count` output channels, of which the warps that `adds` have parts: in the lanes of a row, and
/// one for each split.
template <int Across>
__device__ __forceinline__ void finish_bias(float* to, float (&bias)[Across], float* parts, bool adds, int split,
                                            int splits, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32, column = static_cast<int>(threadIdx.x);
  __syncthreads();
#pragma unroll
  for (int j = 0; j < Across; ++j) {
    bias[j] += __shfl_xor_sync(0xffffffffu, bias[j], 1);
    bias[j] += __shfl_xor_sync(0xffffffffu, bias[j], 2);
    if (adds && lane % 4 == 0) parts[split * Across * 8 + j * 8 + lane / 4] = bias[j];
  }
  __syncthreads();
  if (column >= count) return;
  float total = 0;
  for (int i = 0; i < splits; ++i) total += parts[i * Across * 8 + column];
  to[column] = total;
}

template <int Across, bool Doubles>
__global__ void __launch_bounds__(Across <= 3 ? 2 * tensor_threads : tensor_threads,
                                  !Doubles && (Across == 4 || Across == 7) ? 2 : 1)
    tensor_grad_weight_kernel(float* partials, const float* __restrict__ g, const std::uint8_t* __restrict__ index,
                              const float* __restrict__ x, const __grid_constant__ TensorSizes s,
                              const __grid_constant__ GradWeightCut cut, Divisor<std::uint32_t> of_depths) {
  extern __shared__ float4 memory[];
  const int depths = static_cast<int>(of_depths.value());  // of an image, of 16 positions
  int* const steps = reinterpret_cast<int*>(memory);
  float* const planes = reinterpret_cast<float*>(memory) + depths * tensor_depth;
  float* const staged_g = planes + cut.together * cut.planes;
  const int slice = static_cast<int>(blockIdx.x), c_first = static_cast<int>(blockIdx.y) * cut.channels;
  const int o_first = static_cast<int>(blockIdx.z) * cut.columns, o_count = min(cut.columns, s.O - o_first);
  const int channels = min(cut.channels, s.C - c_first), rows = channels * s.window;
  const int begin = slice * cut.images_per_slice, end = min(begin + cut.images_per_slice, s.N);

  for (int k = static_cast<int>(threadIdx.x); k < depths * tensor_depth; k += static_cast<int>(blockDim.x)) {
    int oh, ow;
    s.of_width.split(k, oh, ow);
    steps[k] = k < s.area ? oh * s.pitch + ow : -1;
  }
  WarpTile<Across, Doubles> sums;
  const int warp = static_cast<int>(threadIdx.x) / 32, split = warp % cut.splits, tile = warp / cut.splits;
  const bool works = tile < cut.tiles && tile * tensor_rows < rows;
  int row_at[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int c, tap, kh, kw;
    s.of_window.split(min(tile * tensor_rows + sums.row(i), rows - 1), c, tap);
    s.of_side.split(tap, kh, kw);
    row_at[i] = c * s.plane + kh * s.pitch + kw;
  }
  // The bias is the sum of its output channel, which the warps of the first rows load anyway.
  const bool with_bias = c_first == 0 && tile == 0;
  float bias[Across] = {};
  const int whole = s.area / tensor_depth;

  begin_kernel();
  for (int first = 0; first < end - begin; first += cut.together) {
    if (first > 0) __syncthreads();
    const int images = min(cut.together, end - begin - first);
    copy_images(planes, x + (static_cast<std::int64_t>(begin + first) * s.C + c_first) * s.H * s.W, images, channels,
                cut.planes, s);
    stage_gradients(staged_g, g, index, begin + first, images, o_first, o_count, cut.pitch, s);
    commit_copies();
    await_copies<0>();
    __syncthreads();
    if (!works) continue;
#pragma unroll 1
    for (int number = split; number < images * depths; number += cut.splits) {
      int image, depth;
      of_depths.split(number, image, depth);
      const float* const left = planes + image * cut.planes;
      const float* const right = staged_g + image * o_count * cut.pitch + depth * tensor_depth;
      const int4 step = reinterpret_cast<const int4*>(steps)[depth * 4 + sums.t];
      if (depth < whole)
        sums.template add<true>(left, row_at, step, right, cut.pitch);
      else
        sums.template add<false>(left, row_at, step, right, cut.pitch);
      if (!with_bias) continue;
#pragma unroll
      for (int j = 0; j < Across; ++j) {
        const float4 four = *reinterpret_cast<const float4*>(right + (j * 8 + sums.g) * cut.pitch + 4 * sums.t);
        bias[j] += (four.x + four.y) + (four.z + four.w);
      }
    }
  }
  const std::int64_t sums_of_slice = static_cast<std::int64_t>(s.O) * s.length + s.O;
  float* const to = partials + slice * sums_of_slice;
  float* const parts = reinterpret_cast<float*>(memory);
  const auto use = [&](int row, int column, const float(&total)[1]) {
    to[static_cast<std::int64_t>(o_first + column) * s.length + c_first * s.window + row] = total[0];
  };
  if (cut.splits == 1) {
    if (works)
      sums.template each<1>([&](int i, int column, const float(&sum)[1]) {
        const int row = tile * tensor_rows + sums.row(i);
        if (row < rows && column < o_count) use(row, column, sum);
      });
  } else {
    add_warps<1>(
        parts, sums, {cut.tiles, cut.splits, rows, o_count}, [](int row) { return row; }, use);
  }
  if (c_first == 0)
    finish_bias(to + (sums_of_slice - s.O + o_first), bias, parts, with_bias, split, cut.splits, o_count);
}

GradWeightCut chosen_cut(const Problem& problem) {
  struct Key;
  return tuning::cut_of<Key>(problem, problem.rule, [&](const tuning::Costs& costs) {
    return find_grad_weight_cut(tuning::figures(), costs, problem, problem.tensor_cores());
  });
}

bool fits(const Problem& problem) {
  return small_window(problem) && on_tensor_cores(problem) && chosen_cut(problem).columns > 0;
}

std::size_t workspace(const Problem& problem, int) {
  return static_cast<std::size_t>(chosen_cut(problem).slices * (problem.weights() + problem.O)) * sizeof(float);
}

void run_tensor(Context& context, const Problem& problem, const Arrays& arrays, int, void* workspace) {
  auto* const partials = static_cast<float*>(workspace);
  const GradWeightCut cut = chosen_cut(problem);
  tuning::took_rule(context, problem.rule);
  with_columns(cut.columns, [&](auto across) {
    const auto run = [&](auto kernel) {
      const dim3 blocks(static_cast<unsigned>(cut.slices), static_cast<unsigned>(ceil_div(problem.C, cut.channels)),
                        static_cast<unsigned>(ceil_div(problem.O, cut.columns)));
      launch(context, Grid(blocks, static_cast<unsigned>(cut.warps * 32), cut.shared), kernel, partials,
             static_cast<const float*>(arrays.y), arrays.index, static_cast<const float*>(arrays.x),
             tensor_sizes(problem), cut, Divisor<std::uint32_t>(ceil_div(problem.OH * problem.OW, tensor_depth)));
    };
    run(problem.tensor_cores() ? tensor_grad_weight_kernel<across.value, false>
                               : tensor_grad_weight_kernel<across.value, true>);
  });
  sum_slices(context, static_cast<float*>(arrays.weight), static_cast<float*>(arrays.bias), partials, cut.slices,
             problem.weights(), problem.O);
}

}  // namespace

const Algorithm direct_tensor_grad_weight{"direct_tensor", fits, workspace, run_tensor};

}  // namespace tern::cuda::convolution
