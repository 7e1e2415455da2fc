#include "cuda/convolution/direct_tensor.cuh"
#include "cuda/pooling.cuh"

namespace tern::cuda::convolution {
namespace {

template <int Across, bool Doubles, bool Pools>
__global__ void __launch_bounds__(tensor_threads, (forward_resident(Across, Doubles)))
    tensor_forward_kernel(float* y, std::uint8_t* index, const float* __restrict__ x, const float* __restrict__ weight,
                          const float* bias, const __grid_constant__ TensorSizes s,
                          const __grid_constant__ ForwardCut cut, Activation activation) {
  extern __shared__ float4 memory[];
  // An item is an element of a channel of y.
  constexpr int rows_of_item = Pools ? 4 : 1, items_of_tile = tensor_rows / rows_of_item;
  const Divisor<std::uint32_t>& of_area = Pools ? s.of_pooled : s.of_area;
  const Divisor<std::uint32_t>& of_width = Pools ? s.of_pooled_width : s.of_width;
  const int area = s.area / rows_of_item;
  const int slices = (s.length + tensor_depth - 1) / tensor_depth;
  int* const steps = reinterpret_cast<int*>(memory);
  float* const shift = reinterpret_cast<float*>(memory) + slices * tensor_depth;
  float* const planes = shift + Across * 8;
  float* const weights = planes + cut.planes;
  const int item_first = static_cast<int>(blockIdx.x) * cut.tiles * items_of_tile;
  const int items = min(cut.tiles * items_of_tile, s.N * area - item_first);
  const int image_first = static_cast<int>(of_area.quotient(item_first));
  const int images = static_cast<int>(of_area.quotient(item_first + items - 1)) - image_first + 1;
  const int o_first = static_cast<int>(blockIdx.y) * cut.columns, o_count = min(cut.columns, s.O - o_first);

  for (int k = static_cast<int>(threadIdx.x); k < slices * tensor_depth; k += tensor_threads) {
    int c, tap, kh, kw;
    s.of_window.split(k, c, tap);
    s.of_side.split(tap, kh, kw);
    steps[k] = k < s.length ? c * s.plane + kh * s.pitch + kw : -1;
  }
  WarpTile<Across, Doubles> sums;
  const int warp = static_cast<int>(threadIdx.x) / 32, split = warp % cut.splits, tile_step = tensor_warps / cut.splits;

  begin_kernel();
  copy_images(planes, x + static_cast<std::int64_t>(image_first) * s.C * s.H * s.W, images, s.C, cut.image, s);
  copy_rows(weights, weight + static_cast<std::int64_t>(o_first) * s.length, o_count, s.length, s.length, cut.pitch);
  commit_copies();
  if (threadIdx.x < Across * 8)
    shift[threadIdx.x] =
        bias != nullptr && static_cast<int>(threadIdx.x) < o_count ? bias[o_first + threadIdx.x] : 0.0f;
  await_copies<0>();
  __syncthreads();

  // The location of an item: its image among those of the block, and its position.
  const auto locate = [&](int item, int& image, int& position) {
    of_area.split(item_first + item, image, position);
    image -= image_first;
  };
  const std::int64_t first = (static_cast<std::int64_t>(image_first) * s.O + o_first) * area;
  const auto place = [&](int item) {
    int image, position;
    locate(item, image, position);
    return image * s.O * area + position;
  };
  // A pooled layer has relu at most; a call of the rarer activations would keep the sums in memory.
  const auto activated = [&](float value) {
    if constexpr (Pools) return activation == Activation::none ? value : clip(value, activation);
    return activate(value, activation);
  };
  const auto finish = [&](int at, int column, const float(&total)[rows_of_item]) {
    if (column >= o_count) return;
    float best = activated(total[0] + shift[column]);
    int winner = 0;
#pragma unroll
    for (int i = 1; i < rows_of_item; ++i) {
      const float value = activated(total[i] + shift[column]);
      if (!beats(value, best)) continue;
      best = value;
      winner = i;
    }
    const std::int64_t to = first + at + column * area;
    y[to] = best;
    if (Pools && index != nullptr) index[to] = static_cast<std::uint8_t>(winner);
  };
  for (int tile = warp / cut.splits; tile < cut.tiles && tile * items_of_tile < items; tile += tile_step) {
    const auto item = [&](int i) { return tile * items_of_tile + (Pools ? sums.g : sums.row(i)); };
    int row_at[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int image, position, oh, ow;
      locate(min(item(i), items - 1), image, position);
      of_width.split(position, oh, ow);
      if (Pools) oh = 2 * oh + i / 2, ow = 2 * ow + i % 2;
      row_at[i] = image * cut.image + oh * s.pitch + ow;
    }
    const auto add = [&](int slice, auto whole) {
      sums.template add<whole.value>(planes, row_at, reinterpret_cast<const int4*>(steps)[slice * 4 + sums.t],
                                     weights + slice * tensor_depth, cut.pitch);
    };
    int slice = split;
#pragma unroll 1
    for (; slice < s.length / tensor_depth; slice += cut.splits) add(slice, std::true_type());
    if (slice < slices) add(slice, std::false_type());
    if (cut.splits > 1) break;
    int at[4];
#pragma unroll
    for (int i = 0; i < 4; i += rows_of_item) at[i] = place(min(item(i), items - 1));
    sums.template each<rows_of_item>([&](int i, int column, const float(&sum)[rows_of_item]) {
      if (item(i) < items) finish(at[i], column, sum);
    });
    sums = {};
  }
  if (cut.splits > 1) add_warps<rows_of_item>(planes, sums, {cut.tiles, cut.splits, items, o_count}, place, finish);
}

ForwardCut chosen_cut(const Problem& problem) {
  struct Key;
  return tuning::cut_of<Key>(problem, problem.rule, [&](const tuning::Costs& costs) {
    return find_forward_cut(tuning::figures(), costs, problem, problem.tensor_cores());
  });
}

bool fits(const Problem& problem) {
  return small_window(problem) && on_tensor_cores(problem) && chosen_cut(problem).columns > 0;
}
// Short sums (a first layer's) over many outputs are faster with multiply-adds, on an H200: 6.9 compared with 7.4
// microseconds in strict float32 for 128 images of LeNet, 11.9 compared with 17.9 in TF32 for 256 of 3 x 32 x 32 to 12,
// 3x3 with padding.
bool many_short_sums(const Problem& problem) {
  return problem.C * problem.KH * problem.KW <= 32 && problem.outputs() >= (problem.tensor_cores() ? 2500000 : 1200000);
}
bool fits_first(const Problem& problem) { return fits(problem) && !many_short_sums(problem); }
bool fits_last(const Problem& problem) { return fits(problem) && many_short_sums(problem); }

void run_tensor(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  const ForwardCut cut = chosen_cut(problem);
  tuning::took_rule(context, problem.rule);
  with_columns(cut.columns, [&](auto across) {
    const auto run = [&](auto kernel) {
      const dim3 blocks(static_cast<unsigned>(ceil_div(problem.positions(), std::int64_t{cut.tiles} * tensor_rows)),
                        static_cast<unsigned>(ceil_div(problem.O, cut.columns)));
      launch(context, Grid(blocks, tensor_threads, cut.shared), kernel, static_cast<float*>(arrays.y), arrays.index,
             static_cast<const float*>(arrays.x), static_cast<const float*>(arrays.weight),
             static_cast<const float*>(arrays.bias), tensor_sizes(problem), cut, problem.activation);
    };
    const auto of_kind = [&](auto doubles) {
      run(problem.pools ? tensor_forward_kernel<across.value, doubles.value, true>
                        : tensor_forward_kernel<across.value, doubles.value, false>);
    };
    problem.tensor_cores() ? of_kind(std::false_type()) : of_kind(std::true_type());
  });
}

}  // namespace

const Algorithm direct_tensor_forward_first{"direct_tensor", fits_first, nullptr, run_tensor};
const Algorithm direct_tensor_forward_last{"direct_tensor", fits_last, nullptr, run_tensor};
const Algorithm direct_tensor_forward_pooled{"direct_tensor", fits, nullptr, run_tensor};

}  // namespace tern::cuda::convolution
