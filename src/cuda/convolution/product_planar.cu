// Convolutions with a 1x1 kernel, channels first, as products of the weight with each image's planes on tensor cores:
// nothing is transposed. Both factors pass through a ring of stages in shared memory, in the order of memory.

#include <algorithm>

#include "cuda/async_copy.cuh"
#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/planes.cuh"
#include "cuda/convolution/rule.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/fused.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/tensor_cores.cuh"

namespace tern::cuda::convolution {
namespace {

constexpr int depth = 16;  // k of a stage

/// out = a b, of each image or summed over them. Lines are rows of a, and columns of b.
struct PlanarProduct {
  struct Factor {
    const float* from;
    std::int64_t image;  ///< elements from one to the next; 0: all have the same
    int pitch;           ///< from one line, or one k, to the next
    bool fours = false;  ///< runs of four are aligned, and whole
  };
  Factor a, b;
  float* out;
  std::int64_t out_image;
  const float* bias;
  int rows, columns, k;
  int stages, stages_each;  ///< of all images, one after the other; of a block
  Activation activation;
  bool pairs;  ///< out may be written in twos
};

/// A block's part, its warps and its stages.
template <int tile_rows, int tile_columns, int warps_by_row, int warps_by_column, int stage_count>
struct PlanarTile {
  static constexpr int rows = tile_rows, columns = tile_columns, warps_m = warps_by_row, warps_n = warps_by_column,
                       stages = stage_count, threads = 32 * warps_m * warps_n;
  static constexpr int warp_rows = rows / warps_m, warp_columns = columns / warps_n;
};

/// Where a factor's lines lie in a stage: contiguous along k, or along the lines.
template <bool along_k, int lines>
struct Stage {
  static constexpr int pitch = along_k ? depth + 4 : lines + 8;  // without bank conflicts of fragments
  static constexpr int floats = along_k ? lines * pitch : depth * pitch;
  static __device__ __forceinline__ int place(int line, int k) { return along_k ? line * pitch + k : k * pitch + line; }

  template <int threads>
  static __device__ __forceinline__ void fill(float* to, const PlanarProduct::Factor& of, int image, int first_line,
                                              int line_count, int first_k, int k_count) {
    const float* const from = of.from + image * of.image;
    const auto copy = [&]<int width>(std::integral_constant<int, width>, int i) {
      constexpr int in_row = (along_k ? depth : lines) / width;
      const int row = i / in_row, at = i % in_row * width, line = along_k ? row : at, k = along_k ? at : row;
      const bool inside = first_line + line < line_count && first_k + k < k_count;
      const std::int64_t offset = along_k ? static_cast<std::int64_t>(first_line + line) * of.pitch + first_k + k
                                          : static_cast<std::int64_t>(first_k + k) * of.pitch + first_line + line;
      copy_async<width, width == 4>(to + place(line, k), from + (inside ? offset : 0), inside);
    };
    const int thread = static_cast<int>(threadIdx.x);
    if (of.fours) {
#pragma unroll
      for (int i = 0; i < lines * depth / 4; i += threads) copy(std::integral_constant<int, 4>{}, i + thread);
    } else {
#pragma unroll 4
      for (int i = 0; i < lines * depth; i += threads) copy(std::integral_constant<int, 1>{}, i + thread);
    }
  }
};

template <class Tile, bool a_along_k, bool b_along_k>
constexpr std::size_t planar_bytes = sizeof(float) * Tile::stages*(Stage<a_along_k, Tile::rows>::floats +
                                                                   Stage<b_along_k, Tile::columns>::floats);

template <class Tile, bool a_along_k, bool b_along_k>
__global__ void __launch_bounds__(Tile::threads) planar_product_kernel(const __grid_constant__ PlanarProduct p) {
  using A = Stage<a_along_k, Tile::rows>;
  using B = Stage<b_along_k, Tile::columns>;
  constexpr int blocks_m = Tile::warp_rows / 16, blocks_n = Tile::warp_columns / 8, stages = Tile::stages;
  static_assert(Tile::rows * depth / 4 % Tile::threads == 0 && Tile::columns * depth / 4 % Tile::threads == 0);
  extern __shared__ float4 memory[];
  float* const shared = reinterpret_cast<float*>(memory);
  begin_kernel();
  const int first_row = static_cast<int>(blockIdx.x) * Tile::rows,
            first_column = static_cast<int>(blockIdx.y) * Tile::columns;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int in_m = warp / Tile::warps_n * Tile::warp_rows, in_n = warp % Tile::warps_n * Tile::warp_columns;
  const int quad = lane / 4, place = lane % 4;

  const int per_image = (p.k + depth - 1) / depth, first = static_cast<int>(blockIdx.z) * p.stages_each;
  int image = first / per_image, k = first % per_image * depth;  // of the next stage that is filled
  const auto fill = [&](int stage) {
    float* const to = shared + stage * (A::floats + B::floats);
    A::template fill<Tile::threads>(to, p.a, image, first_row, p.rows, k, p.k);
    B::template fill<Tile::threads>(to + A::floats, p.b, image, first_column, p.columns, k, p.k);
    if ((k += depth) >= p.k) k = 0, ++image;
  };
  const int steps = min(p.stages_each, p.stages - first);
#pragma unroll
  for (int stage = 0; stage < stages - 1; ++stage) {
    if (stage < steps) fill(stage);
    commit_copies();
  }
  float sums[blocks_m][blocks_n][4] = {};
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    await_copies<stages - 2>();
    __syncthreads();
    if (step + stages - 1 < steps) fill((step + stages - 1) % stages);
    commit_copies();
    const float* const a = shared + step % stages * (A::floats + B::floats);
    const float* const b = a + A::floats;
#pragma unroll
    for (int at = 0; at < depth; at += 8) {
      std::uint32_t left[blocks_m][4], right[blocks_n][2];
#pragma unroll
      for (int m = 0; m < blocks_m; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          left[m][i] =
              __float_as_uint(rounded_tf32(a[A::place(in_m + m * 16 + quad + i % 2 * 8, at + place + i / 2 * 4)]));
#pragma unroll
      for (int n = 0; n < blocks_n; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          right[n][i] = __float_as_uint(rounded_tf32(b[B::place(in_n + n * 8 + quad, at + place + i * 4)]));
#pragma unroll
      for (int m = 0; m < blocks_m; ++m)
#pragma unroll
        for (int n = 0; n < blocks_n; ++n) multiply_add(sums[m][n], left[m], right[n]);
    }
  }
  float* const out = p.out + blockIdx.z * p.out_image;
  each_pair(sums, lane, [&](int in_rows, int in_columns, float one, float next) {
    const int row = first_row + in_m + in_rows, column = first_column + in_n + in_columns;
    if (row >= p.rows || column >= p.columns) return;
    const float shift = p.bias == nullptr ? 0.0f : __ldg(p.bias + row);
    const auto finished = [&](float sum) { return activate(p.bias == nullptr ? sum : sum + shift, p.activation); };
    float* const to = out + static_cast<std::int64_t>(row) * p.columns + column;
    if (p.pairs) {
      store(to, Pack<float, 2>{{finished(one), finished(next)}});
    } else {
      to[0] = finished(one);
      if (column + 1 < p.columns) to[1] = finished(next);
    }
  });
}

using Wide = PlanarTile<128, 128, 2, 4, 3>;
using Narrow = PlanarTile<32, 128, 1, 4, 4>;
using Small = PlanarTile<64, 64, 2, 2, 4>;

/// Calls body with the largest tile of which there are enough.
template <class Body>
auto with_tile(std::int64_t rows, std::int64_t columns, std::int64_t images, const Body& body) {
  const auto tiles = [&](int high, int wide) { return ceil_div(rows, high) * ceil_div(columns, wide) * images; };
  if (rows <= 32) return body(Narrow{});
  if (rows > 64 && tiles(128, 128) >= card().multiprocessors) return body(Wide{});
  return body(Small{});
}

/// The product of a pass, without its arrays.
struct Sizes {
  std::int64_t rows, columns, k;
};
Sizes sizes_of(const Problem& p) {
  const std::int64_t area = p.H * p.W;
  if (p.pass == Pass::forward) return {p.O, area, p.C};
  if (p.pass == Pass::grad_x) return {p.C, area, p.O};
  return {p.O, p.C, area};
}

/// Parts of the sum over all positions, for the weight.
std::int64_t slices_of(const Problem& p) {
  if (p.pass != Pass::grad_weight) return p.N;
  constexpr std::int64_t wanted = 2, least = 8;  // blocks for each multiprocessor; stages of a slice
  const Sizes s = sizes_of(p);
  const std::int64_t stages = p.N * ceil_div(s.k, depth);
  const std::int64_t tiles = with_tile(s.rows, s.columns, 1, [&]<class Tile>(Tile) {
    return ceil_div(s.rows, Tile::rows) * ceil_div(s.columns, Tile::columns);
  });
  const std::int64_t slices =
      std::clamp<std::int64_t>(wanted * card().multiprocessors / tiles, 1, std::max<std::int64_t>(1, stages / least));
  return ceil_div(stages, ceil_div(stages, slices));
}

template <bool a_along_k, bool b_along_k>
void start(const Context& context, const Problem& p, PlanarProduct product) {
  const Sizes s = sizes_of(p);
  const std::int64_t slices = slices_of(p), stages = p.N * ceil_div(s.k, depth);
  product.rows = static_cast<int>(s.rows), product.columns = static_cast<int>(s.columns);
  product.k = static_cast<int>(s.k), product.stages = static_cast<int>(stages);
  product.stages_each = static_cast<int>(ceil_div(stages, slices));
  product.pairs = s.columns % 2 == 0 && product.out_image % 2 == 0 && aligned<2>(product.out);
  const auto fours = [](PlanarProduct::Factor& of, std::int64_t run) {
    of.fours = run % 4 == 0 && of.pitch % 4 == 0 && of.image % 4 == 0 && aligned<4>(of.from);
  };
  fours(product.a, a_along_k ? s.k : s.rows);
  fours(product.b, b_along_k ? s.k : s.columns);
  with_tile(s.rows, s.columns, slices, [&]<class Tile>(Tile) {
    const dim3 blocks(static_cast<unsigned>(ceil_div(s.rows, Tile::rows)),
                      static_cast<unsigned>(ceil_div(s.columns, Tile::columns)), static_cast<unsigned>(slices));
    launch(context, Grid(blocks, Tile::threads, planar_bytes<Tile, a_along_k, b_along_k>),
           planar_product_kernel<Tile, a_along_k, b_along_k>, product);
  });
}

std::size_t workspace(const Problem& p, int) {
  const std::int64_t slices = p.pass == Pass::grad_weight ? slices_of(p) : 1;
  return slices == 1 ? 0 : static_cast<std::size_t>(slices * p.weights()) * sizeof(float);
}

void run(Context& context, const Problem& p, const Arrays& arrays, int, void* workspace) {
  const std::int64_t area = p.H * p.W;
  auto *const x = static_cast<float*>(arrays.x), *const y = static_cast<float*>(arrays.y),
              *const weight = static_cast<float*>(arrays.weight), *const bias = static_cast<float*>(arrays.bias);
  const PlanarProduct::Factor images_x{x, p.C * area, static_cast<int>(area)},
      images_y{y, p.O * area, static_cast<int>(area)}, weights{weight, 0, static_cast<int>(p.C)};
  PlanarProduct product{};
  if (p.pass == Pass::forward) {
    product.a = weights, product.b = images_x, product.out = y, product.out_image = p.O * area;
    product.bias = bias, product.activation = p.activation;
    return start<true, false>(context, p, product);
  }
  if (p.pass == Pass::grad_x) {
    product.a = weights, product.b = images_y, product.out = x, product.out_image = p.C * area;
    return start<false, false>(context, p, product);
  }
  if (bias != nullptr) sum_planes(context, bias, y, p.N, p.O, area);
  if (weight == nullptr) return;
  const std::int64_t slices = slices_of(p);
  auto* const partials = static_cast<float*>(workspace);
  product.a = images_y, product.b = images_x;
  product.out = slices == 1 ? weight : partials, product.out_image = p.weights();
  start<true, true>(context, p, product);
  if (slices > 1) sum_slices<float>(context, weight, nullptr, partials, slices, p.weights(), 0);
}

bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31, most_layers = 65535;
  return p.tensor_cores() && card().code >= 80 && !p.channels_last() && !p.pools && p.element == Element::float32 &&
         p.stored == Element::float32 && p.groups == 1 && p.KH == 1 && p.KW == 1 && p.stride_h == 1 &&
         p.stride_w == 1 && p.pad_h == 0 && p.pad_w == 0 && p.H == p.OH && p.W == p.OW && p.C > 0 &&
         p.images() < most && p.outputs() < most && p.weights() < most && p.N <= most_layers &&
         p.H * p.W < 64 * most_layers && p.C < 64 * most_layers;
}

}  // namespace

double tiles_time(const Problem& p) {
  constexpr double bytes_rate = 3e6, product_rate = 22e6, weight_rate = 11e6, stage = 0.35, launch = 4;
  const Sizes s = sizes_of(p);
  const auto whole = [](std::int64_t count, std::int64_t of) { return ceil_div(count, of) * of; };
  const auto bytes = static_cast<double>(p.images() + p.outputs()) * sizeof(float);
  const double singly = p.H * p.W % 4 == 0 ? 1 : 2;  // elements are copied one by one
  // The first stages arrive while nothing is multiplied.
  const std::int64_t k = whole(s.k, depth) + (p.pass == Pass::grad_weight ? 0 : 2 * depth);
  const auto work = static_cast<double>(p.N * whole(s.rows, 32) * whole(s.columns, 64) * k);
  const auto slices = static_cast<double>(p.pass == Pass::grad_weight ? slices_of(p) : p.N);
  const double waits = static_cast<double>(p.N * ceil_div(s.k, depth)) / slices * stage;
  return singly *
             std::max({bytes / bytes_rate, work / (p.pass == Pass::grad_weight ? weight_rate : product_rate), waits}) +
         launch;
}

namespace {

/// Against transposed copies around a product by a library, which multiplies faster.
bool pays(const Problem& p) {
  if (suits_gathering(p)) return false;
  constexpr double copies_rate = 2.5e6, library_rate = 150e6, launches = 12;
  const auto bytes = static_cast<double>(p.images() + p.outputs()) * sizeof(float);
  const double there =
      3 * bytes / copies_rate + launches + static_cast<double>(p.outputs()) * static_cast<double>(p.C) / library_rate;
  return tiles_time(p) < there;
}
bool fits_first(const Problem& p) { return fits(p) && pays(p); }
bool fits_last(const Problem& p) { return fits(p) && !pays(p); }

}  // namespace

const Algorithm planar_forward_first{"product", fits_first, workspace, run};
const Algorithm planar_forward_last{"product", fits_last, workspace, run};
const Algorithm planar_grad_x_first{"product", fits_first, workspace, run};
const Algorithm planar_grad_x_last{"product", fits_last, workspace, run};
const Algorithm planar_grad_weight_first{"product", fits_first, workspace, run};
const Algorithm planar_grad_weight_last{"product", fits_last, workspace, run};

}  // namespace tern::cuda::convolution
