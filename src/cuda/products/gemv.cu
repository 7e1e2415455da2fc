#include <cooperative_groups.h>

#include <algorithm>

#include "cuda/async_copy.cuh"
#include "cuda/branches.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/products/gemv.cuh"
#include "cuda/products/loads.cuh"

namespace tern::cuda::products {
namespace {

__device__ __forceinline__ float4 load_four_or_zero(const float* from, bool exists) {
  float four[4];
  load_or_zero(four, from, exists);
  return {four[0], four[1], four[2], four[3]};
}

// ---- forward: columns of out are dot products ----

constexpr int forward_threads = 128;

/// Packs of four weights that a thread has in flight, and as many of each row.
constexpr int forward_loads(int rows) { return 8 / rows; }
/// Elements of a weight row that `lanes` threads have in flight.
constexpr int forward_round(int rows, int lanes) { return 4 * lanes * forward_loads(rows); }

/// How the threads of a column read rows of whole 16 bytes: in packs. Staged: for one row, read completely in one
/// round; through shared memory. Other rows are read element by element, adjacent ones by adjacent threads.
enum class Reads { packs, staged, elements };

/// Elements first, first + step, ... of a row, four of them: those before `end`.
template <Reads how>
__device__ __forceinline__ float4 load_four(const float* row, int first, int step, int end, bool exists) {
  if constexpr (how != Reads::elements) return load_four_or_zero(row + first, exists && first < end);
  float four[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float one[1];
    load_or_zero(one, row + first + i * step, exists && first + i * step < end);
    four[i] = one[0];
  }
  return {four[0], four[1], four[2], four[3]};
}

/// `Lanes` threads share each column.
template <int Rows, int Lanes, Reads how, bool Shared>
__global__ void __launch_bounds__(forward_threads)
    gemv_kernel(const __grid_constant__ KernelArguments<Product, Shared> passed) {
  constexpr int warps = Lanes / 32, loads = forward_loads(Rows);
  // Of a thread: from one of its elements to the next, and from its first four to the next four.
  constexpr int step = how == Reads::elements ? Lanes : 1, next = 4 * Lanes;
  const Product product = passed.mine();  // by reference each layer takes 0.1 us longer
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const int column = static_cast<int>(blockIdx.x) * (forward_threads / Lanes) + static_cast<int>(threadIdx.x) / Lanes;
  const bool exists = column < product.n;
  const float* const b = product.b.data + (exists ? static_cast<std::int64_t>(column) * product.k : 0);
  begin_kernel();
  const float shift = exists && product.bias != nullptr ? product.bias[column] : 0.0f;
  float sum[Rows] = {};
  for (int first = how == Reads::elements ? lane : 4 * lane; first < product.k; first += next * loads) {
    float4 right[loads], left[Rows][loads];
    if constexpr (how == Reads::staged) {
      __shared__ float4 of_row[loads][forward_threads], of_weight[loads][forward_threads];  // each thread has its own
#pragma unroll
      for (int i = 0; i < loads; ++i) {
        const int k = first + i * next;
        // The compiler cannot wait for one of these before it issues the next.
        copy_async<4>(&of_row[i][threadIdx.x].x, product.a.data + k, k < product.k);
        copy_async<4>(&of_weight[i][threadIdx.x].x, b + k, k < product.k);
      }
      commit_copies();
      await_copies<0>();
#pragma unroll
      for (int i = 0; i < loads; ++i) {
        left[0][i] = of_row[i][threadIdx.x];
        right[i] = of_weight[i][threadIdx.x];
      }
    } else {
#pragma unroll
      for (int i = 0; i < loads; ++i) {
        const int k = first + i * next;
        right[i] = load_four<how>(b, k, step, product.k, true);
#pragma unroll
        for (int r = 0; r < Rows; ++r)
          left[r][i] = load_four<how>(product.a.data + static_cast<std::int64_t>(r) * product.k, k, step, product.k,
                                      r < product.m);
      }
    }
#pragma unroll
    for (int i = 0; i < loads; ++i)
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        sum[r] = fmaf(left[r][i].x, right[i].x, sum[r]);
        sum[r] = fmaf(left[r][i].y, right[i].y, sum[r]);
        sum[r] = fmaf(left[r][i].z, right[i].z, sum[r]);
        sum[r] = fmaf(left[r][i].w, right[i].w, sum[r]);
      }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], distance);
  if constexpr (warps > 1) {
    __shared__ float parts[Rows][warps];
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int r = 0; r < Rows; ++r)
      if (threadIdx.x % 32 == 0) parts[r][warp] = sum[r];
    __syncthreads();
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      sum[r] = parts[r][0];
#pragma unroll
      for (int w = 1; w < warps; ++w) sum[r] += parts[r][w];
    }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r)
    if (exists && lane == r && r < product.m)
      product.out[static_cast<std::int64_t>(r) * product.n + column] = activate(sum[r] + shift, product.activation);
}

template <int Rows, int Lanes>
void launch_forward(const Context& context, const Product& product) {
  const Grid grid(static_cast<unsigned>(ceil_div(product.n, forward_threads / Lanes)), forward_threads);
  constexpr Reads once = Rows == 1 ? Reads::staged : Reads::packs;
  if (!product.a.aligned || !product.b.aligned)
    launch_shared(context, grid, product,
                  [](auto shared) { return gemv_kernel<Rows, Lanes, Reads::elements, shared>; });
  else if (Rows == 1 && product.k <= forward_round(Rows, Lanes))
    launch_shared(context, grid, product, [](auto shared) { return gemv_kernel<Rows, Lanes, once, shared>; });
  else
    launch_shared(context, grid, product, [](auto shared) { return gemv_kernel<Rows, Lanes, Reads::packs, shared>; });
}

// ---- backward ----

constexpr int backward_threads = 256, backward_warps = backward_threads / 32;
constexpr int data_columns = 32, data_lanes = backward_threads / (data_columns / 4);
constexpr int data_loads = backward_threads / data_lanes;  // of the weight, that a thread has in flight
constexpr int weight_fours = 4;                            // of each thread

/// Element i of row r of the gradient before the activation.
__device__ __forceinline__ float gradient_at(const Product& product, const Factor& g, int r, int i) {
  const std::int64_t at = r * g.stride + i;
  return g.mask == nullptr ? g.data[at] : through_activation(g.data[at], g.mask[at], product.through);
}

// Both parts begin the kernel.

/// 32 columns of the gradient of x; a cluster's blocks share the sum over the weight's rows. While a thread's elements
/// of 256 of them are in flight, each gradient passes through the activation once.
template <int Rows>
__device__ __forceinline__ void data_part(const Product& product, int tile, int rank) {
  __shared__ float g[Rows][backward_threads];
  __shared__ alignas(16) float parts[backward_warps][Rows][data_columns];  // written in packs of four
  [[maybe_unused]] __shared__ float totals[Rows * data_columns];
  const int thread = static_cast<int>(threadIdx.x);
  const int column = tile * data_columns + thread % (data_columns / 4) * 4, lane = thread / (data_columns / 4);
  const int share = (product.k + product.split - 1) / product.split;
  const int begin = rank * share, end = min(begin + share, product.k);
  begin_kernel();
  float4 sum[Rows] = {};
  for (int first = begin; first < end; first += backward_threads) {
    float4 weight[data_loads];
#pragma unroll
    for (int i = 0; i < data_loads; ++i) {
      const int row = first + lane + i * data_lanes;
      weight[i] = load_four_or_zero(product.b.data + static_cast<std::int64_t>(row) * product.n + column,
                                    row < end && column < product.n);
    }
    if (first > begin) __syncthreads();  // all have read the previous ones
#pragma unroll
    for (int r = 0; r < Rows; ++r)
      g[r][thread] = r < product.m && first + thread < end ? gradient_at(product, product.a, r, first + thread) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < data_loads; ++i)
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        const float by = g[r][lane + i * data_lanes];
        sum[r].x = fmaf(by, weight[i].x, sum[r].x);
        sum[r].y = fmaf(by, weight[i].y, sum[r].y);
        sum[r].z = fmaf(by, weight[i].z, sum[r].z);
        sum[r].w = fmaf(by, weight[i].w, sum[r].w);
      }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int distance = 16; distance >= data_columns / 4; distance /= 2) {
      sum[r].x += __shfl_xor_sync(0xffffffffu, sum[r].x, distance);
      sum[r].y += __shfl_xor_sync(0xffffffffu, sum[r].y, distance);
      sum[r].z += __shfl_xor_sync(0xffffffffu, sum[r].z, distance);
      sum[r].w += __shfl_xor_sync(0xffffffffu, sum[r].w, distance);
    }
    if (thread % 32 < data_columns / 4) *reinterpret_cast<float4*>(&parts[thread / 32][r][thread % 32 * 4]) = sum[r];
  }
  __syncthreads();
  const int r = thread / data_columns, to = tile * data_columns + thread % data_columns;
  const bool writes = r < Rows && r < product.m && to < product.n;
  float total = 0;
  if (r < Rows)
    for (int warp = 0; warp < backward_warps; ++warp) total += parts[warp][r][thread % data_columns];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (product.split > 1) {
    auto cluster = cooperative_groups::this_cluster();
    if (r < Rows) totals[thread] = total;
    cluster.sync();
    if (writes && rank == 0) {
      total = 0;
      for (int other = 0; other < product.split; ++other)
        total += cluster.map_shared_rank(totals, static_cast<unsigned>(other))[thread];
    }
    cluster.sync();  // nobody leaves while others read its shared memory
  }
#endif
  if (writes && rank == 0) product.out[static_cast<std::int64_t>(r) * product.n + to] = total;
}

/// A section of the weight's gradient, and the bias's beside its first columns.
template <int Rows>
__device__ __forceinline__ void weight_part(const Product& product, const Divisor<std::uint32_t>& row_fours,
                                            int block) {
  const auto count = static_cast<std::uint32_t>(product.m) * row_fours.value();
  begin_kernel();
#pragma unroll
  for (int i = 0; i < weight_fours; ++i) {
    const auto four = static_cast<std::uint32_t>((block * weight_fours + i) * backward_threads) + threadIdx.x;
    if (four >= count) return;
    std::uint32_t row = four;
    const std::uint32_t column = 4 * row_fours.split(row);
    float4 sum = {0, 0, 0, 0};
    float of_bias = 0;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (r >= product.k) break;
      const float g = gradient_at(product, product.a, r, static_cast<int>(row));
      const float4 x = load_four_or_zero(product.b.data + r * product.b.stride + column, true);
      sum.x = fmaf(g, x.x, sum.x);
      sum.y = fmaf(g, x.y, sum.y);
      sum.z = fmaf(g, x.z, sum.z);
      sum.w = fmaf(g, x.w, sum.w);
      of_bias += g;
    }
    *reinterpret_cast<float4*>(product.out + 4 * static_cast<std::int64_t>(four)) = sum;
    if (column == 0 && product.sums != nullptr) product.sums[row] = of_bias;
  }
}

struct BackwardArguments {
  Product weight, data;
  Divisor<std::uint32_t> row_fours;  // of the weight
  int data_blocks;
};

template <int Rows, bool Shared>
__global__ void __launch_bounds__(backward_threads)
    gemv_backward_kernel(const __grid_constant__ KernelArguments<BackwardArguments, Shared> passed) {
  const BackwardArguments mine = passed.mine();
  const int block = static_cast<int>(blockIdx.x);
  if (block < mine.data_blocks)
    data_part<Rows>(mine.data, block / mine.data.split, block % mine.data.split);
  else
    weight_part<Rows>(mine.weight, mine.row_fours, block - mine.data_blocks);
}

template <int Rows>
void launch_backward(const Context& context, const Product& weight, Product data) {
  // As many blocks per 32 columns as leave each of them one round of loads.
  data.split = 1;
  if (card().overlap)
    while (data.split < largest_split && data.k > data.split * backward_threads) data.split *= 2;
  const std::int64_t data_blocks = data.out == nullptr ? 0 : ceil_div(data.n, data_columns) * data.split;
  const std::int64_t fours = static_cast<std::int64_t>(weight.m) * (weight.n / 4);
  const std::int64_t weight_blocks = weight.out == nullptr ? 0 : ceil_div(fours, backward_threads * weight_fours);
  Grid grid(static_cast<unsigned>(ceil_div(data_blocks + weight_blocks, data.split) * data.split), backward_threads);
  grid.cluster = static_cast<unsigned>(data.split);
  launch_shared(context, grid,
                BackwardArguments{weight, data, Divisor<std::uint32_t>(weight.n / 4), static_cast<int>(data_blocks)},
                [](auto shared) { return gemv_backward_kernel<Rows, shared>; });
}

/// Calls body with the number of rows for which a thread keeps sums: at least `rows`.
template <class Body>
void with_rows(int rows, const Body& body) {
  if (rows == 1) return body(std::integral_constant<int, 1>{});
  if (rows == 2) return body(std::integral_constant<int, 2>{});
  body(std::integral_constant<int, most_gemv>{});
}

/// For an array that is read or written in packs, or absent.
bool whole(std::uint32_t alignment) { return alignment == 0 || alignment >= 16; }
bool has_few_rows(const Problem& p) {
  // Above two rows and 8 million weights the library's tiles read them faster, on an H200.
  const std::int64_t most = std::int64_t{1} << (p.m > 2 ? 23 : 30);
  return p.in == Element::float32 && p.batch == 1 && p.m <= most_gemv && p.n < most / p.k;
}
bool in_whole_rows(const Problem& p) { return p.k % 4 == 0 && whole(p.inputs.a) && whole(p.inputs.b); }

}  // namespace

bool fits_gemv(const Problem& p) { return p.k > 0 && has_few_rows(p) && row_by_row(p) && in_whole_rows(p); }
bool fits_gemv_by_elements(const Problem& p) {
  return p.k > 0 && has_few_rows(p) && row_by_row(p) && !in_whole_rows(p);
}

bool fits_gemv_backward(const Problem& p) {
  return has_few_rows(p) && in_whole_rows(p) && whole(p.gradients.a) && whole(p.gradients.b);
}

void gemv_product(const Context& context, const Product& product) {
  with_rows(product.m, [&](auto rows) {
    if (product.k > forward_round(rows, 32))
      launch_forward<rows, forward_threads>(context, product);
    else
      launch_forward<rows, 32>(context, product);
  });
}

void gemv_backward(const Context& context, const Product& weight, const Product& data) {
  const int rows = data.out != nullptr ? data.m : weight.k;
  with_rows(rows, [&](auto count) { launch_backward<count>(context, weight, data); });
}

}  // namespace tern::cuda::products
