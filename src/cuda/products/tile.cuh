#pragma once
// The float32 matrix product of the cuda mode. One block computes a tile of the output; its threads form `groups` that
// share the sum over k, and a cluster of blocks may share it further. All partial sums are added in a fixed order.

#include <cooperative_groups.h>

#include <type_traits>

#include "cuda/fused.cuh"
#include "cuda/products/sums.cuh"
#include "cuda/support.cuh"

namespace tern::cuda::products {

/// A factor: rows of length k if `KContiguous`, else k rows of the other extent. `mask` is null, or the activation's
/// output if the factor is a gradient that passes through an activation.
struct Factor {
  const float* data = nullptr;
  const float* mask = nullptr;
  std::int64_t stride = 0;  ///< between stored rows
  bool aligned = false;     ///< every stored row starts at 16 bytes
};

/// out[m, n] = activation(a b + bias); `sums` (optional, for an a that is stored by k) receives the row sums of a.
struct Product {
  Factor a, b;
  float* out = nullptr;
  const float* bias = nullptr;
  float* sums = nullptr;
  int m = 0, n = 0, k = 0;
  Activation activation = Activation::none;  ///< of out
  Activation through = Activation::none;     ///< of a.mask
  int split = 1;                             ///< blocks that share one tile's sum: 1, or the cluster's size
  bool aligned_out = false;                  ///< every row of out starts at 16 bytes
};

/// Every shape has 256 threads, so that two of them can share a launch.
inline constexpr int product_threads = 256;

/// In float32, or on tensor cores, which read TF32.
template <int Rows, int Columns, int Depth, int ThreadRows, int ThreadColumns, int Resident, bool Tensor>
struct Tile {
  static constexpr bool tensor = Tensor;
  static constexpr int rows = Rows, columns = Columns, depth = Depth;
  static constexpr int thread_rows = ThreadRows, thread_columns = ThreadColumns;
  static constexpr int across = Columns / ThreadColumns, down = Rows / ThreadRows;
  static constexpr int groups = product_threads / (across * down);
  static constexpr int resident = Resident;  // blocks that must fit on a multiprocessor: bounds the registers
  static_assert(groups >= 1 && Depth % (4 * groups) == 0);
  // Longer loops than this do not fit the instruction cache, which then costs more than the multiply-adds.
  static constexpr int unroll = ThreadRows * ThreadColumns >= 64 ? 1 : 2;
  // Stored rows are padded against bank conflicts while 16-byte accesses stay aligned.
  static constexpr int pad(bool k_contiguous) { return Tensor && !k_contiguous ? 8 : 4; }
  static constexpr int stage(int extent, bool k_contiguous) {
    return k_contiguous ? extent * (Depth + pad(true)) : Depth * (extent + pad(false));
  }
  static constexpr int partial_stride = Columns + 8;
  static constexpr int partials = groups * Rows * partial_stride;
  static constexpr std::size_t shared_bytes(bool ka, bool kb) {
    const int stages = 2 * (stage(Rows, ka) + stage(Columns, kb));
    const int after = partials + 4 * product_threads + Rows;  // and the row sums
    return sizeof(float) * static_cast<std::size_t>(stages > after ? stages : after);
  }
  static std::int64_t tiles(std::int64_t m, std::int64_t n) { return ceil_div(m, Rows) * ceil_div(n, Columns); }
};

/// Four consecutive floats, of which `valid` exist.
__device__ __forceinline__ float4 load_four(const float* from, int valid, bool aligned) {
  if (aligned && valid >= 4) return *reinterpret_cast<const float4*>(from);
  float4 four = {0, 0, 0, 0};
  if (valid > 0) four.x = from[0];
  if (valid > 1) four.y = from[1];
  if (valid > 2) four.z = from[2];
  if (valid > 3) four.w = from[3];
  return four;
}

/// Moves the stages of one factor in order from global memory through registers to shared memory.
template <class Shape, int Extent, bool KContiguous, bool MayMask>
struct StageLoader {
  static constexpr int Depth = Shape::depth;
  static constexpr int along = KContiguous ? Depth : Extent;
  static constexpr int lines = KContiguous ? Extent : Depth;
  static constexpr int pass = product_threads / (along / 4);  // lines that all threads together load at once
  static constexpr int per_thread = lines / pass;
  static_assert(lines % pass == 0 && per_thread >= 1);
  float4 value[per_thread];
  float4 mask[MayMask ? per_thread : 1];
  const float* from;
  std::ptrdiff_t to_mask;  // in elements; meaningless without a mask
  std::int64_t stride;
  int line, minor;  // of this thread's first four
  int free_lines;   // lines from `line` on that exist (KContiguous: rows; else k, counted down by advance)
  int free_minor;   // elements from `minor` on that exist (KContiguous: k, counted down; else rows)
  bool aligned, masked;

  __device__ __forceinline__ StageLoader(const Factor& factor, int first, int extent, int k_begin, int k_end) {
    line = static_cast<int>(threadIdx.x) / (along / 4);
    minor = static_cast<int>(threadIdx.x) % (along / 4) * 4;
    stride = factor.stride;
    aligned = factor.aligned;
    masked = MayMask && factor.mask != nullptr;
    to_mask = MayMask && masked ? factor.mask - factor.data : 0;
    const int row0 = KContiguous ? first : k_begin, column0 = KContiguous ? k_begin : first;
    from = factor.data + (row0 + line) * stride + column0 + minor;
    free_lines = (KContiguous ? extent : k_end) - row0 - line;
    free_minor = (KContiguous ? k_end : extent) - column0 - minor;
  }

  /// Loads the next stage.
  __device__ __forceinline__ void load() {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      const bool exists = i * pass < free_lines && free_minor > 0;
      value[i] = exists ? load_four(from + i * pass * stride, free_minor, aligned) : float4{0, 0, 0, 0};
      if constexpr (MayMask)
        if (masked)
          mask[i] = exists ? load_four(from + to_mask + i * pass * stride, free_minor, aligned) : float4{0, 0, 0, 0};
    }
    if constexpr (KContiguous) {
      from += Depth;
      free_minor -= Depth;
    } else {
      from += Depth * stride;
      free_lines -= Depth;
    }
  }

  __device__ __forceinline__ void store(float* stage, Activation through, float4& sums) {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      if constexpr (MayMask) {
        if (masked) {
          value[i].x = through_activation(value[i].x, mask[i].x, through);
          value[i].y = through_activation(value[i].y, mask[i].y, through);
          value[i].z = through_activation(value[i].z, mask[i].z, through);
          value[i].w = through_activation(value[i].w, mask[i].w, through);
        }
        if constexpr (!KContiguous) {  // a thread always holds the same four rows
          sums.x += value[i].x;
          sums.y += value[i].y;
          sums.z += value[i].z;
          sums.w += value[i].w;
        }
      }
      if constexpr (Shape::tensor)
        value[i] = {rounded_tf32(value[i].x), rounded_tf32(value[i].y), rounded_tf32(value[i].z),
                    rounded_tf32(value[i].w)};
      *reinterpret_cast<float4*>(stage + (line + i * pass) * (along + Shape::pad(KContiguous)) + minor) = value[i];
    }
  }
};

/// Writes four adjacent outputs, of which those inside the matrix exist.
__device__ __forceinline__ void finish_four(const Product& product, int row, int column, float4 four) {
  if (row >= product.m || column >= product.n) return;
  const float values[4] = {four.x, four.y, four.z, four.w};
  float* to = product.out + static_cast<std::int64_t>(row) * product.n + column;
  float done[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float shift = product.bias != nullptr && column + i < product.n ? product.bias[column + i] : 0.0f;
    done[i] = activate(values[i] + shift, product.activation);
  }
  if (product.aligned_out && column + 3 < product.n) {
    *reinterpret_cast<float4*>(to) = float4{done[0], done[1], done[2], done[3]};
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (column + i < product.n) to[i] = done[i];
}

__device__ __forceinline__ float4 operator+(const float4& a, const float4& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

/// The fours of a tile's sums in shared memory.
template <class Shape>
struct Fours {
  static constexpr int count = Shape::rows * Shape::columns / 4, per_row = Shape::columns / 4;
  static __device__ __forceinline__ int place(int e) { return e / per_row * Shape::partial_stride + e % per_row * 4; }
};

/// Adds what the blocks of a cluster have of a tile's sums, and of its row sums if there are any.
template <class Shape>
__device__ __forceinline__ void finish_cluster(const Product& product, int row0, int column0, int rank, float* shared,
                                               float* row_totals) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using On = Fours<Shape>;
  auto cluster = cooperative_groups::this_cluster();
  cluster.sync();
  const int slice = (On::count + product.split - 1) / product.split;
  const int end = min(On::count, (rank + 1) * slice);
  for (int e = rank * slice + static_cast<int>(threadIdx.x); e < end; e += product_threads) {
    float4 total = {0, 0, 0, 0};
    for (int other = 0; other < product.split; ++other)
      total = total + *reinterpret_cast<const float4*>(cluster.map_shared_rank(shared, static_cast<unsigned>(other)) +
                                                       On::place(e));
    finish_four(product, row0 + e / On::per_row, column0 + e % On::per_row * 4, total);
  }
  if (row_totals != nullptr && rank == 0 && threadIdx.x < Shape::rows &&
      row0 + static_cast<int>(threadIdx.x) < product.m) {
    float total = 0;
    for (int other = 0; other < product.split; ++other)
      total += cluster.map_shared_rank(row_totals, static_cast<unsigned>(other))[threadIdx.x];
    product.sums[row0 + threadIdx.x] = total;
  }
  cluster.sync();  // nobody leaves while others read its shared memory
#endif
}

/// Computes tile `tile` of the product, and begins the kernel; `rank` is this block's share of the sum, below
/// product.split. With a split, all blocks of the cluster must call this with the same product and tile.
template <class Shape, bool KA, bool KB, bool MayMask>
__device__ __forceinline__ void compute_tile(const Product& product, int tile, int rank, float* shared) {
  const int tiles_n = (product.n + Shape::columns - 1) / Shape::columns;
  const int row0 = tile / tiles_n * Shape::rows, column0 = tile % tiles_n * Shape::columns;
  if (row0 >= product.m) return begin_kernel();  // a surplus block of an unsplit product
  int k_begin = 0, k_end = product.k;
  if (product.split > 1) {
    const int share = ((product.k + product.split - 1) / product.split + 3) / 4 * 4;
    k_begin = min(rank * share, product.k);
    k_end = min(k_begin + share, product.k);
  }

  constexpr int stage_a = Shape::stage(Shape::rows, KA), stage = stage_a + Shape::stage(Shape::columns, KB);
  StageLoader<Shape, Shape::rows, KA, MayMask> a_loader(product.a, row0, product.m, k_begin, k_end);
  StageLoader<Shape, Shape::columns, KB, false> b_loader(product.b, column0, product.n, k_begin, k_end);
  std::conditional_t<Shape::tensor, TensorSums<Shape, KA, KB>, FusedSums<Shape, KA, KB>> sums;
  float4 row_sums = {0, 0, 0, 0};

  begin_kernel();
  a_loader.load();
  b_loader.load();
  a_loader.store(shared, product.through, row_sums);
  b_loader.store(shared + stage_a, Activation::none, row_sums);
  __syncthreads();
  const float* now = shared;
  float* next = shared + stage;
#pragma unroll 1
  for (int left = k_end - k_begin; left > 0; left -= Shape::depth) {
    const bool more = left > Shape::depth;
    if (more) {
      a_loader.load();
      b_loader.load();
    }
    sums.add(now, now + stage_a, left);
    if (more) {
      a_loader.store(next, product.through, row_sums);
      b_loader.store(next + stage_a, Activation::none, row_sums);
      __syncthreads();
      float* const written = next;
      next = shared + (next == shared ? stage : 0);
      now = written;
    }
  }

  // The row sums of a: first over the threads that hold the same rows, then over the cluster.
  const bool with_sums = MayMask && !KA && product.sums != nullptr && column0 == 0;
  float* const sum_parts = shared + Shape::partials;
  float* const sum_total = sum_parts + 4 * product_threads;
  __syncthreads();
  if (with_sums) *reinterpret_cast<float4*>(sum_parts + 4 * threadIdx.x) = row_sums;

  using On = Fours<Shape>;
  sums.template store<Shape::partial_stride>(shared);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < (On::count + product_threads - 1) / product_threads; ++i) {
    const int e = static_cast<int>(threadIdx.x) + i * product_threads;
    if (On::count % product_threads != 0 && e >= On::count) break;
    float* const at = shared + On::place(e);
    float4 total = *reinterpret_cast<const float4*>(at);
#pragma unroll
    for (int g = 1; g < Shape::groups; ++g)
      total = total + *reinterpret_cast<const float4*>(at + g * Shape::rows * Shape::partial_stride);
    if (product.split == 1)
      finish_four(product, row0 + e / On::per_row, column0 + e % On::per_row * 4, total);
    else if (Shape::groups > 1)
      *reinterpret_cast<float4*>(at) = total;
  }
  if (with_sums && threadIdx.x < Shape::rows) {
    constexpr int lanes = Shape::rows / 4;
    float total = 0;
    for (int i = 0; i < product_threads / lanes; ++i)
      total += sum_parts[i * Shape::rows + static_cast<int>(threadIdx.x)];
    if (product.split > 1)
      sum_total[threadIdx.x] = total;
    else if (row0 + static_cast<int>(threadIdx.x) < product.m)
      product.sums[row0 + threadIdx.x] = total;
  }
  if (product.split > 1) finish_cluster<Shape>(product, row0, column0, rank, shared, with_sums ? sum_total : nullptr);
}

}  // namespace tern::cuda::products
