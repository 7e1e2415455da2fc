#include "cuda/products.cuh"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cuda/memo.cuh"

namespace tern::cuda {
namespace {

// Rows, columns and depth of a stage; rows and columns of a thread; resident blocks.
using Tile0 = Tile<32, 16, 64, 4, 4, 3>;
using Tile1 = Tile<32, 32, 64, 4, 4, 3>;
using Tile2 = Tile<64, 32, 64, 8, 4, 2>;
using Tile3 = Tile<64, 64, 64, 8, 8, 1>;
using Tile4 = Tile<128, 64, 32, 8, 8, 1>;
using Tile5 = Tile<128, 128, 16, 8, 8, 1>;

/// The pairs of tiles, for the weight and for x, that a backward launch may use.
template <class Weight, class Data>
struct Pair {};

template <class Shape, bool KA, bool KB>
__global__ void __launch_bounds__(product_threads, Shape::resident)
    product_kernel(const __grid_constant__ Product product, std::int64_t stride_a, std::int64_t stride_b) {
  extern __shared__ float4 shared[];
  begin_kernel();
  const int block = static_cast<int>(blockIdx.x);
  float* const memory = reinterpret_cast<float*>(shared);
  if (gridDim.y == 1) {
    compute_tile<Shape, KA, KB, false>(product, block / product.split, block % product.split, memory);
    return;
  }
  Product mine = product;
  mine.a.data += blockIdx.y * stride_a;
  mine.b.data += blockIdx.y * stride_b;
  mine.out += static_cast<std::int64_t>(blockIdx.y) * product.m * product.n;
  compute_tile<Shape, KA, KB, false>(mine, block / product.split, block % product.split, memory);
}

// The first `weight_blocks` compute the weight's gradient, the others that of x: independent work in one launch.
template <class Weight, class Data>
__global__ void __launch_bounds__(product_threads, Weight::resident < Data::resident ? Weight::resident
                                                                                     : Data::resident)
    backward_kernel(const __grid_constant__ Product weight, const __grid_constant__ Product data, int weight_blocks) {
  extern __shared__ float4 shared[];
  begin_kernel();
  float* const memory = reinterpret_cast<float*>(shared);
  const int block = static_cast<int>(blockIdx.x);
  if (block < weight_blocks)
    compute_tile<Weight, false, false, true>(weight, block / weight.split, block % weight.split, memory);
  else
    compute_tile<Data, true, false, true>(data, (block - weight_blocks) / data.split,
                                          (block - weight_blocks) % data.split, memory);
}

template <class Shape, bool KA, bool KB>
void launch_product(const Context& context, const Product& product, std::int64_t batch, std::int64_t stride_a,
                    std::int64_t stride_b) {
  constexpr auto kernel = product_kernel<Shape, KA, KB>;
  constexpr std::size_t bytes = Shape::shared_bytes(KA, KB);
  if (bytes > 48 * 1024) allow_shared(reinterpret_cast<const void*>(kernel), bytes);
  Grid grid(dim3(static_cast<unsigned>(Shape::tiles(product.m, product.n) * product.split),
                 static_cast<unsigned>(batch)),
            product_threads, bytes);
  grid.cluster = static_cast<unsigned>(product.split);
  launch(context, grid, kernel, product, stride_a, stride_b);
}

template <class Weight, class Data>
void launch_backward(const Context& context, const Product& weight, const Product& data) {
  constexpr auto kernel = backward_kernel<Weight, Data>;
  constexpr std::size_t bytes = std::max(Weight::shared_bytes(false, false), Data::shared_bytes(true, false));
  if (bytes > 48 * 1024) allow_shared(reinterpret_cast<const void*>(kernel), bytes);
  const int cluster = std::max(weight.split, data.split);
  const auto whole_clusters = [&](std::int64_t blocks) {  // surplus blocks find no tile
    return static_cast<int>((blocks + cluster - 1) / cluster * cluster);
  };
  const int weight_blocks =
      weight.out == nullptr ? 0 : whole_clusters(Weight::tiles(weight.m, weight.n) * weight.split);
  const int data_blocks = data.out == nullptr ? 0 : whole_clusters(Data::tiles(data.m, data.n) * data.split);
  Grid grid(static_cast<unsigned>(weight_blocks + data_blocks), product_threads, bytes);
  grid.cluster = static_cast<unsigned>(cluster);
  launch(context, grid, kernel, weight, data, weight_blocks);
}

/// Calls body with the tile shape of that number.
template <class Body>
void with_tile(int tile, const Body& body) {
  switch (tile) {
    case 0:
      return body(std::type_identity<Tile0>{});
    case 1:
      return body(std::type_identity<Tile1>{});
    case 2:
      return body(std::type_identity<Tile2>{});
    case 3:
      return body(std::type_identity<Tile3>{});
    case 4:
      return body(std::type_identity<Tile4>{});
    default:
      return body(std::type_identity<Tile5>{});
  }
}

/// Calls body with one of the pairs of tiles that are compiled; false for the others.
template <class Body>
bool with_pair(int weight, int data, const Body& body) {
  switch (weight * 10 + data) {
    case 10:
      body(Pair<Tile1, Tile0>{});
      return true;
    case 11:
      body(Pair<Tile1, Tile1>{});
      return true;
    case 20:
      body(Pair<Tile2, Tile0>{});
      return true;
    case 21:
      body(Pair<Tile2, Tile1>{});
      return true;
    case 22:
      body(Pair<Tile2, Tile2>{});
      return true;
    case 31:
      body(Pair<Tile3, Tile1>{});
      return true;
    case 32:
      body(Pair<Tile3, Tile2>{});
      return true;
    case 33:
      body(Pair<Tile3, Tile3>{});
      return true;
    case 44:
      body(Pair<Tile4, Tile4>{});
      return true;
    default:
      return false;
  }
}

// ---- the rule ----

// What a block of each tile shape costs, in microseconds, fitted to measurements on an H200: `work` is its share of a
// busy multiprocessor, `wait` the time that it takes however idle the card is; each per 1000 k and once.
struct Figures {
  int rows, columns, resident;
  float work_k, work_once, wait_k, wait_once;
};
constexpr Figures figures[tile_shapes] = {{32, 16, 3, 7.0f, 0.30f, 25.0f, 1.6f},   {32, 32, 3, 11.0f, 0.35f, 32.0f, 1.6f},
                                          {64, 32, 2, 16.0f, 0.50f, 40.0f, 1.9f},  {64, 64, 1, 27.0f, 0.80f, 40.0f, 2.2f},
                                          {128, 64, 1, 48.0f, 1.2f, 60.0f, 2.5f}, {128, 128, 1, 90.0f, 2.0f, 110.0f, 3.0f}};
constexpr float cost_of_split = 0.9f, cost_per_part = 0.05f;

struct Work {
  int tile = 0;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  int split = 1;
};

// Blocks spread over the multiprocessors; the fullest one decides, and no block is faster than its own waits.
float cost(const Work* work, int count) {
  const auto multiprocessors = static_cast<float>(card().multiprocessors);
  float total = 0, largest = 0, slowest = 0, blocks = 0;
  int resident = 8;
  for (int i = 0; i < count; ++i) {
    const auto& [tile, m, n, k, batch, split] = work[i];
    if (m == 0) continue;
    const Figures& of = figures[tile];
    const float share = static_cast<float>(ceil_div(k, split)) / 1000;
    const float count_here = static_cast<float>(ceil_div(m, of.rows) * ceil_div(n, of.columns) * split * batch);
    const float one = of.work_once + of.work_k * share;
    const float alone = of.wait_once + of.wait_k * share + (split > 1 ? cost_of_split + cost_per_part * split : 0.0f);
    total += count_here * one;
    largest = std::max(largest, one);
    slowest = std::max(slowest, alone);
    blocks += count_here;
    resident = std::min(resident, of.resident);
  }
  if (blocks == 0) return 0;
  const float fullest = std::ceil(blocks / multiprocessors) * total / blocks;
  const float rounds = std::ceil(blocks / (multiprocessors * static_cast<float>(resident)));
  return std::max(fullest + slowest * 0.5f, slowest * (1 + 0.6f * (rounds - 1)));
}

int splits_to_try() { return card().overlap ? largest_split : 1; }

Choice find_product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch, bool row_by_row) {
  Choice best;
  best.cost = std::numeric_limits<float>::max();
  for (int tile = 0; tile < tile_shapes; ++tile) {
    if (!product_exists(tile, row_by_row)) continue;
    for (int split = 1; split <= splits_to_try(); ++split) {
      const Work work{tile, m, n, k, batch, split};
      const float guess = cost(&work, 1);
      if (guess < best.cost) best = {tile, split, 0, 1, guess};
    }
  }
  return best;
}

Choice find_backward(std::int64_t rows, std::int64_t in, std::int64_t out, bool weight, bool data) {
  Choice best;
  best.cost = std::numeric_limits<float>::max();
  for (int tile = 0; tile < tile_shapes; ++tile)
    for (int tile_data = 0; tile_data < tile_shapes; ++tile_data) {
      if (!backward_exists(tile, tile_data)) continue;
      for (int cluster = 1; cluster <= splits_to_try(); ++cluster)
        for (int who = cluster == 1 ? 2 : 0; who < 3; ++who) {  // both sums are split, or only one of them
          const int split = who == 1 ? 1 : cluster, split_data = who == 0 ? 1 : cluster;
          const Work work[2] = {{tile, weight ? out : 0, in, rows, 1, split},
                                {tile_data, data ? rows : 0, in, out, 1, split_data}};
          const float guess = cost(work, 2);
          if (guess < best.cost) best = {tile, split, tile_data, split_data, guess};
        }
    }
  return best;
}

}  // namespace

bool product_exists(int tile, bool row_by_row) { return row_by_row || tile == 1 || tile == 3; }
bool backward_exists(int tile, int tile_data) {
  return with_pair(tile, tile_data, [](auto) {});
}

Choice choose_product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch, bool row_by_row) {
  struct Rule;
  return remembered<Rule>(std::array<std::int64_t, 5>{m, n, k, batch, row_by_row ? 1 : 0},
                          [&] { return find_product(m, n, k, batch, row_by_row); });
}

Choice choose_backward(std::int64_t rows, std::int64_t in, std::int64_t out, bool weight, bool data) {
  struct Rule;
  const std::int64_t wanted = (weight ? 1 : 0) + (data ? 2 : 0);
  return remembered<Rule>(std::array<std::int64_t, 4>{rows, in, out, wanted},
                          [&] { return find_backward(rows, in, out, weight, data); });
}

void own_product(const Context& context, const Product& product, bool transpose_a, bool transpose_b,
                 const Choice& choice, std::int64_t batch, std::int64_t stride_a, std::int64_t stride_b) {
  Product mine = product;
  mine.split = choice.split;
  with_tile(choice.tile, [&]<class Shape>(std::type_identity<Shape>) {
    if (!transpose_a && transpose_b) return launch_product<Shape, true, true>(context, mine, batch, stride_a, stride_b);
    // The other layouts only come from matmul: two tile shapes are enough for them.
    if constexpr (std::is_same_v<Shape, Tile1> || std::is_same_v<Shape, Tile3>) {
      if (!transpose_a) return launch_product<Shape, true, false>(context, mine, batch, stride_a, stride_b);
      if (transpose_b) return launch_product<Shape, false, true>(context, mine, batch, stride_a, stride_b);
      launch_product<Shape, false, false>(context, mine, batch, stride_a, stride_b);
    }
  });
}

void own_backward(const Context& context, Product weight, Product data, const Choice& choice) {
  weight.split = choice.split;
  data.split = choice.split_data;
  with_pair(choice.tile, choice.tile_data, [&]<class Weight, class Data>(Pair<Weight, Data>) {
    launch_backward<Weight, Data>(context, weight, data);
  });
}

}  // namespace tern::cuda
