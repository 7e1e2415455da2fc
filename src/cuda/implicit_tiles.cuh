#pragma once
// Convolutions as matrix products on tensor cores whose patches are never written out, for elements of 8 and 16 bits:
// rows are the positions of all images, columns are output channels, and the sum runs over (kernel row, kernel column,
// channel). Both factors are contiguous along the sum and are counted in bytes. A ring of stages in shared memory is
// filled ahead. Where tiles are few, the blocks of a cluster share sums.

#include <cooperative_groups.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <type_traits>

#include "cuda/async_copy.cuh"
#include "cuda/choice.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/tensor_cores.cuh"
#include "tern/kernels/conv.hpp"

namespace tern::cuda::implicit_tiles {

constexpr int depth = 128;  // bytes of the sum in a stage: a line of shared memory has all banks

/// A block's part of the product, its warps, its stages, and how many blocks share a multiprocessor.
template <int tile_rows, int tile_columns, int warps_by_row, int warps_by_column, int stage_count, int blocks_resident>
struct Tile {
  static constexpr int rows = tile_rows, columns = tile_columns, warps_m = warps_by_row, warps_n = warps_by_column,
                       stages = stage_count, resident = blocks_resident;
  static constexpr int threads = 32 * warps_m * warps_n, warp_rows = rows / warps_m, warp_columns = columns / warps_n;
  static constexpr int stage_bytes = (rows + columns) * depth;
  static constexpr int finishes = rows * columns / threads < 32 ? 2 : 4;  // fours of results at a time
  static constexpr int pitch = columns + 8;                               // of the sums: rows 8 banks apart
  static constexpr int ring_bytes = std::max(stages * stage_bytes, rows* pitch * 4);
  static constexpr std::size_t shared_bytes = ring_bytes + rows * 8;
};

/// The factors. A sum has `length` bytes, C of them for each tap. Where they are read one by one, each kernel row of
/// `run` bytes is followed by zeros up to a multiple of four.
struct Factors {
  const std::uint8_t *x, *weight;
  int positions, O, C, length, run, H, W, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  Divisor<std::uint32_t> OH, OW, KW, channels;
  std::uint32_t padding;          ///< four bytes of it
  int tiles_n, split, per_split;  ///< blocks that share a sum, and the bytes of each
};

/// For elements of `bytes`. The tiles and the padding are missing.
inline Factors factors_of(const kernels::Conv2d& sizes, int bytes, const void* x, const void* weight) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  using Divide = Divisor<std::uint32_t>;
  Factors f{};
  f.x = static_cast<const std::uint8_t*>(x), f.weight = static_cast<const std::uint8_t*>(weight);
  f.positions = i(sizes.N * sizes.OH * sizes.OW), f.O = i(sizes.O), f.C = i(sizes.C) * bytes;
  f.length = i(sizes.KH * sizes.KW) * f.C, f.run = i(sizes.KW) * f.C, f.H = i(sizes.H), f.W = i(sizes.W);
  f.stride_h = i(sizes.stride_h), f.stride_w = i(sizes.stride_w), f.pad_h = i(sizes.pad_h), f.pad_w = i(sizes.pad_w);
  f.dilation_h = i(sizes.dilation_h), f.dilation_w = i(sizes.dilation_w);
  f.OH = Divide(sizes.OH), f.OW = Divide(sizes.OW), f.KW = Divide(sizes.KW), f.channels = Divide(f.C);
  return f;
}

/// Whether places in the arrays, and offsets in a window, are counted in 32 bits.
inline bool counts(const kernels::Conv2d& s, int bytes) {
  constexpr std::int64_t most = std::int64_t{1} << 31, side = std::int64_t{1} << 14;
  return (s.N * s.H + s.KH * s.dilation_h) * s.W * s.C * bytes < most && s.N * s.OH * s.OW < most &&
         s.O * s.KH * s.KW * s.C * bytes < most && s.H < side && s.W < side && s.KH * s.dilation_h < side &&
         s.KW * s.dilation_w < side && s.pad_h < side && s.pad_w < side;
}

/// Where the window of a row begins; beyond the last position it lies outside of every image.
struct Row {
  int place;  ///< in x
  short h, w;
};

/// Byte `k` of a line of a stage. The 16-byte chunks of eight lines are permuted: reading one of each meets all banks.
__device__ __forceinline__ int place_of(int line, int k) {
  return line * depth + ((k / 16) ^ (line & 7)) * 16 + k % 16;
}

template <int bytes>
__device__ __forceinline__ void copy_ahead(std::uint8_t* to, const void* from, bool inside) {
  copy_async<bytes / 4>(reinterpret_cast<float*>(to), static_cast<const float*>(from), inside);
}

/// Four 8 x 16 blocks of bytes: each group of eight lanes supplies the line addresses of one.
__device__ __forceinline__ void load_blocks(std::uint32_t (&to)[4], const std::uint8_t* from) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(from));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
#endif
}

// ---- elements: sum += a b over a warp, 16 x 8 from 16 x 32 bytes and 32 bytes x 8 ----

struct Bytes {
  using Sum = std::int32_t;
  static __device__ __forceinline__ void multiply_add(Sum (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                      std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
  }
  static __device__ __forceinline__ Sum add(Sum a, Sum b) {  // wraps around
    return static_cast<Sum>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  }
};

/// BFloat16 or Float16.
template <class T>
struct Halves {
  using Sum = float;
  static __device__ __forceinline__ void multiply_add(Sum (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                      std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    if constexpr (std::is_same_v<T, BFloat16>)
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
  }
  static __device__ __forceinline__ Sum add(Sum a, Sum b) { return a + b; }
};

// ---- a block's work ----

/// The bytes [0, 4) from there on that lie in [first, last); `padding` for the others. It reads whole words that have
/// one of them.
__device__ __forceinline__ std::uint32_t read_word(const std::uint8_t* from, int first, int last,
                                                   std::uint32_t padding) {
  first = max(first, 0), last = min(last, 4);
  if (first >= last) return padding;
  const int beyond = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % 4);
  const auto* const words = reinterpret_cast<const std::uint32_t*>(from - beyond);
  const std::uint32_t low = first + beyond < 4 ? words[0] : 0, high = last + beyond > 4 ? words[1] : 0;
  const std::uint32_t inside = 0xffffffffu << (8 * first) & 0xffffffffu >> (32 - 8 * last);
  return (__funnelshift_r(low, high, beyond * 8) & inside) | (padding & ~inside);
}

/// Fills stages. A thread copies the same `Unit` bytes of a line's sum for every `step`-th line; Unit 1: four bytes of
/// a kernel row, wherever they lie.
template <class Tile, int Unit>
struct Loader {
  static constexpr int bytes = Unit == 1 ? 4 : Unit, pieces = depth / bytes, step = Tile::threads / pieces;
  static constexpr int own_rows = Tile::rows / step, own_columns = Tile::columns / step;
  static constexpr bool holds = own_rows <= 8 && own_columns <= 8;  // what is the same in all stages, in registers
  static_assert(Tile::rows % step == 0 && Tile::columns % step == 0 && Tile::rows % 8 == 0);
  const Factors& p;
  const Row* rows;
  int first_column;
  int in_line = static_cast<int>(threadIdx.x) % pieces * bytes, line = static_cast<int>(threadIdx.x) / pieces;
  int place = place_of(line, in_line);
  Row held[holds ? own_rows : 1] = {};
  int weights[holds ? own_columns : 1] = {};  ///< where an output channel's begin; below 0: there is none

  /// Once the rows are there.
  __device__ __forceinline__ void hold() {
    if constexpr (holds) {
#pragma unroll
      for (int j = 0; j < own_rows; ++j) held[j] = rows[line + j * step];
#pragma unroll
      for (int j = 0; j < own_columns; ++j) weights[j] = weight_of(j);
    }
  }
  __device__ __forceinline__ int weight_of(int j) const {
    const int o = first_column + line + j * step;
    return o < p.O ? o * p.length : -1;
  }
  /// Of this thread's j-th line of a stage.
  __device__ __forceinline__ int place_in(int j) const {
    return step % 8 == 0 ? place + j * step * depth : place_of(line + j * step, in_line);
  }

  /// An offset in the window: by rows and columns, and from the window's place in x.
  struct Tap {
    int h, w, shift;
  };
  __device__ __forceinline__ Tap tap_of(int k) const {
    int tap, c, kh, kw;
    p.channels.split(k, tap, c);
    p.KW.split(tap, kh, kw);
    const int h = kh * p.dilation_h, w = kw * p.dilation_w;
    return {h, w, (h * p.W + w) * p.C + c};
  }
  __device__ __forceinline__ bool inside(const Row& row, const Tap& tap) const {
    return static_cast<unsigned>(row.h + tap.h) < static_cast<unsigned>(p.H) &&
           static_cast<unsigned>(row.w + tap.w) < static_cast<unsigned>(p.W);
  }

  /// The bytes [k, k + depth) of the sum, of x and of the weights. From `end` on there are zeros in the weights, and in
  /// x for elements that need not be finite.
  template <bool clears>
  __device__ __forceinline__ void fill_rows(std::uint8_t* stage, int k, int end) const {
    if constexpr (Unit == 1)
      rows_singly(stage, k + in_line, end);
    else
      rows_ahead<clears>(stage, k + in_line, end);
  }
  __device__ __forceinline__ void fill_columns(std::uint8_t* stage, int k, int end) const {
    if constexpr (Unit == 1)
      columns_singly(stage, k + in_line, end);
    else
      columns_ahead(stage, k + in_line, end);
  }

  template <bool clears>
  __device__ __forceinline__ void rows_ahead(std::uint8_t* stage, int k, int end) const {
    const bool summed = k < end, zeros = clears || p.padding == 0;  // what padding copies
    if (!summed && !clears) return;
    const Tap tap = tap_of(k);
#pragma unroll(holds ? own_rows : 4)
    for (int j = 0; j < own_rows; ++j) {
      const Row row = holds ? held[holds ? j : 0] : rows[line + j * step];
      std::uint8_t* const to = stage + place_in(j);
      if (zeros) {
        const bool exists = summed && inside(row, tap);
        copy_ahead<bytes>(to, p.x + (exists ? row.place + tap.shift : 0), exists);
      } else if (inside(row, tap)) {
        copy_ahead<bytes>(to, p.x + (row.place + tap.shift), true);
      } else {
#pragma unroll
        for (int word = 0; word < bytes / 4; ++word) reinterpret_cast<std::uint32_t*>(to)[word] = p.padding;
      }
    }
  }
  __device__ __forceinline__ void columns_ahead(std::uint8_t* stage, int k, int end) const {
#pragma unroll(holds ? own_columns : 4)
    for (int j = 0; j < own_columns; ++j) {
      const int begin = holds ? weights[holds ? j : 0] : weight_of(j);
      const bool exists = k < end && begin >= 0;
      copy_ahead<bytes>(stage + Tile::rows * depth + place_in(j), p.weight + (exists ? begin + k : 0), exists);
    }
  }

  __device__ __forceinline__ void rows_singly(std::uint8_t* stage, int k, int end) const {
    int kh, in_run;
    p.channels.split(k, kh, in_run);  // of padded rows
    const int h = kh * p.dilation_h, shift = h * p.W * p.C + in_run, width = p.W * p.C;
#pragma unroll 4
    for (int i = line; i < Tile::rows; i += step) {
      const Row row = rows[i];
      const int before = -(row.w * p.C + in_run);
      const bool exists = k < end && static_cast<unsigned>(row.h + h) < static_cast<unsigned>(p.H);
      *reinterpret_cast<std::uint32_t*>(stage + place_of(i, in_line)) =
          exists ? read_word(p.x + (row.place + shift), before, before + width, p.padding) : p.padding;
    }
  }
  __device__ __forceinline__ void columns_singly(std::uint8_t* stage, int k, int end) const {
    int kh, in_run;
    p.channels.split(k, kh, in_run);
    const int rows_of_kernel = p.length / static_cast<int>(p.channels.value());
#pragma unroll 4
    for (int i = line; i < Tile::columns; i += step) {
      const int o = first_column + i;
      const std::uint8_t* const from = p.weight + ((o * rows_of_kernel + kh) * p.run + in_run);
      *reinterpret_cast<std::uint32_t*>(stage + place_of(Tile::rows + i, in_line)) =
          k < end && o < p.O ? read_word(from, 0, p.run - in_run, 0) : 0;
    }
  }
};

/// A warp's sums: blocks of 16 x 8.
template <class Tile, class Cores>
struct WarpSums {
  using Sum = typename Cores::Sum;
  static constexpr int blocks_m = Tile::warp_rows / 16, blocks_n = Tile::warp_columns / 8;
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int in_m = warp / Tile::warps_n * Tile::warp_rows, in_n = warp % Tile::warps_n * Tile::warp_columns;
  Sum sum[blocks_m][blocks_n][4] = {};

  struct Fragments {
    std::uint32_t a[blocks_m][4], b[blocks_n / 2][4];
  };
  __device__ __forceinline__ void read(Fragments& to, const std::uint8_t* stage, int k) const {
#pragma unroll
    for (int m = 0; m < blocks_m; ++m)
      load_blocks(to.a[m], stage + place_of(in_m + m * 16 + lane % 16, k + lane / 16 * 16));
#pragma unroll
    for (int n = 0; n < blocks_n / 2; ++n)
      load_blocks(to.b[n],
                  stage + place_of(Tile::rows + in_n + n * 16 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 16));
  }
  __device__ __forceinline__ void multiply(const Fragments& by) {
#pragma unroll
    for (int m = 0; m < blocks_m; ++m)
#pragma unroll
      for (int n = 0; n < blocks_n; ++n)
        Cores::multiply_add(sum[m][n], by.a[m], by.b[n / 2][n % 2 * 2], by.b[n / 2][n % 2 * 2 + 1]);
  }
  /// Adds a stage: the next fragments are read while some are multiplied.
  __device__ __forceinline__ void add(const std::uint8_t* stage) {
    Fragments fragments[2];
    read(fragments[0], stage, 0);
#pragma unroll
    for (int k = 0; k < depth; k += 32) {
      if (k + 32 < depth) read(fragments[(k / 32 + 1) % 2], stage, k + 32);
      multiply(fragments[k / 32 % 2]);
    }
  }
  __device__ __forceinline__ void write(Sum* to) const {
    each_pair(sum, lane, [&](int row, int column, Sum one, Sum next) {
      *reinterpret_cast<Pack<Sum, 2>*>(to + (in_m + row) * Tile::pitch + in_n + column) = {{one, next}};
    });
  }
};

/// A block's tile. A thread finishes four output channels, from o on, of several positions: Channels(o) has what it
/// reads of them, fetch(position) what it reads for one position, and finish(position, sums, fetched) writes the
/// results. The last channels may not exist. Blocks of a cluster finish a share each, and add the parts in their order.
template <class Tile, int Unit, class Cores, class Channels, class Product>
__device__ __forceinline__ void run_tile(std::uint8_t* ring, const Product& product) {
  const Factors& p = product.factors;
  using Sum = typename Cores::Sum;
  constexpr bool clears = !std::is_same_v<Cores, Bytes>;
  Row* const rows = reinterpret_cast<Row*>(ring + Tile::ring_bytes);
  const int rank = static_cast<int>(blockIdx.x) % p.split, tile = static_cast<int>(blockIdx.x) / p.split;
  const int first_row = tile / p.tiles_n * Tile::rows, first_column = tile % p.tiles_n * Tile::columns;
  for (int i = static_cast<int>(threadIdx.x); i < Tile::rows; i += Tile::threads) {
    auto image = static_cast<std::uint32_t>(first_row + i);
    const bool exists = first_row + i < p.positions;
    const int w = static_cast<int>(p.OW.split(image)) * p.stride_w - p.pad_w;
    const int h = static_cast<int>(p.OH.split(image)) * p.stride_h - p.pad_h;
    rows[i] = {((static_cast<int>(image) * p.H + h) * p.W + w) * p.C, static_cast<short>(exists ? h : -32768),
               static_cast<short>(w)};
  }
  Loader<Tile, Unit> loader{p, rows, first_column};
  const int begin = rank * p.per_split, end = min(begin + p.per_split, p.length);
  const int steps = max(0, (end - begin + depth - 1) / depth);
  const auto stage_of = [&](int at) { return ring + at % Tile::stages * Tile::stage_bytes; };
  begin_kernel();
  __syncthreads();
  loader.hold();
  constexpr int per_row = Tile::columns / 4, step = Tile::threads / per_row, at_once = Tile::finishes;
  const int column = static_cast<int>(threadIdx.x) % per_row * 4, o = first_column + column;
  const Channels channels(product, o < p.O ? o : 0);
  WarpSums<Tile, Cores> sums;
  // One copy of the code fills the first stages and the later ones: most instructions run once, and are fetched then.
#pragma unroll 1
  for (int at = 1 - Tile::stages; at < steps; ++at) {
    if (at >= 0) {
      await_copies<Tile::stages - 2>();
      __syncthreads();
    }
    const int next = at + Tile::stages - 1;
    if (next < steps) {
      loader.template fill_rows<clears>(stage_of(next), begin + next * depth, end);
      loader.fill_columns(stage_of(next), begin + next * depth, end);
    }
    commit_copies();
    if (at >= 0) sums.add(stage_of(at));
  }
  __syncthreads();
  auto* const own = reinterpret_cast<Sum*>(ring);
  sums.write(own);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (p.split > 1)
    cooperative_groups::this_cluster().sync();
  else
#endif
    __syncthreads();
  const int share = Tile::rows / p.split, last_row = min((rank + 1) * share, p.positions - first_row);
  if (o < p.O) {
#pragma unroll 1
    for (int row = rank * share + static_cast<int>(threadIdx.x) / per_row; row < last_row; row += at_once * step) {
      typename Channels::Fetched fetched[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        if (row + i * step < last_row) fetched[i] = channels.fetch(first_row + row + i * step);
      Pack<Sum, 4> totals[at_once] = {};
      for (int other = 0; other < p.split; ++other) {
        const Sum* from = own;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        if (p.split > 1) from = cooperative_groups::this_cluster().map_shared_rank(own, static_cast<unsigned>(other));
#endif
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
          if (row + i * step >= last_row) break;
          const auto part = *reinterpret_cast<const Pack<Sum, 4>*>(from + (row + i * step) * Tile::pitch + column);
#pragma unroll
          for (int four = 0; four < 4; ++four)
            totals[i].value[four] = Cores::add(totals[i].value[four], part.value[four]);
        }
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        if (row + i * step < last_row) channels.finish(first_row + row + i * step, totals[i].value, fetched[i]);
    }
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (p.split > 1) cooperative_groups::this_cluster().sync();  // nobody leaves while others read its shared memory
#endif
}

// ---- the rule ----

constexpr int tile_count = 4, usual_tile = 1;
constexpr const char* tile_names[tile_count]{"64x32", "64x64", "128x64", "128x128"};
constexpr const char* split_names[]{"1", "2", "4", "8"};
struct Plan {
  int tile = usual_tile, split = 1;
  double cycles = 0;
};

using UsualTile = Tile<64, 64, 2, 2, 4, 3>;
template <class Body>
auto with_tile(int tile, const Body& body) {
  switch (tile) {
    case 0:
      return body(Tile<64, 32, 2, 2, 4, 4>{});
    case 2:
      return body(Tile<128, 64, 4, 1, 3, 3>{});
    case 3:
      return body(Tile<128, 128, 2, 2, 3, 2>{});
    default:
      return body(UsualTile{});
  }
}

/// Sizes of a product; `rate`: multiply-adds of a byte that a multiprocessor reaches in a cycle with large tiles.
struct Work {
  std::int64_t positions, O, length;
  double rate;
  bool whole;  ///< output channels in fours; else there is one tile
};

/// Estimated cycles of the busiest multiprocessor: its stages at the rate of the tensor cores or of the second-level
/// cache, but none faster than its waits, with start and end, and the exchange of a cluster.
template <class Tile>
double cycles(const Work& work, int split) {
  // Small tiles read more fragments for a product.
  constexpr double reached = Tile::rows * Tile::columns >= 128 * 128  ? 1
                             : Tile::rows * Tile::columns >= 128 * 64 ? 0.75
                             : Tile::rows * Tile::columns >= 64 * 64  ? 0.6
                                                                      : 0.45;
  constexpr double bytes_per_cycle = 45, stage_cycles = 260, in_and_out = 1800;
  const std::int64_t stages = ceil_div(ceil_div(work.length, split), depth);
  const std::int64_t blocks = ceil_div(work.positions, Tile::rows) * ceil_div(work.O, Tile::columns) * split;
  const auto busiest = static_cast<double>(ceil_div(blocks, card().multiprocessors));
  const double rounds = std::ceil(busiest / Tile::resident), bytes = static_cast<double>(work.length) / split;
  const double at_best =
      busiest * bytes *
      std::max(Tile::rows * Tile::columns / (work.rate * reached), (Tile::rows + Tile::columns) / bytes_per_cycle);
  const double waits = rounds * (static_cast<double>(stages) * stage_cycles + in_and_out);
  const double exchange = split == 1 ? 0 : 900 + Tile::rows * Tile::columns / 30.0;
  return std::max(at_best + in_and_out, waits) + exchange;
}

/// The cheapest; only what is forced, if it is there.
inline Plan choose_plan(const Context& context, const Work& work) {
  const std::string_view tile_name = forced_algorithm(context, "implicit_tile"),
                         split_name = forced_algorithm(context, "implicit_split");
  for (const bool obeys : {true, false}) {
    Plan best;
    for (int tile = 0; tile < tile_count; ++tile)
      for (int power = 0; power < (card().overlap ? 4 : 1); ++power) {
        if (!work.whole && tile != usual_tile) continue;
        const bool wanted = (tile_name.empty() || tile_name == tile_names[tile]) &&
                            (split_name.empty() || split_name == split_names[power]);
        if (obeys && !wanted) continue;
        const double time = with_tile(tile, [&]<class Tile>(Tile) {
          return Tile::shared_bytes <= card().shared_per_block ? cycles<Tile>(work, 1 << power) : 0;
        });
        if (time > 0 && (best.cycles == 0 || time < best.cycles)) best = {tile, 1 << power, time};
      }
    if (best.cycles > 0) return best;
  }
  return {};
}

/// Remembered for the problem, whose `work` it is.
template <class Problem>
Plan plan_of(const Context& context, const Problem& problem, const Work& work) {
  struct Rule;
  const bool forced =
      !forced_algorithm(context, "implicit_tile").empty() || !forced_algorithm(context, "implicit_split").empty();
  const auto choose = [&] { return choose_plan(context, work); };
  const Plan plan = forced ? choose() : remembered<Rule>(problem, choose);
  took_algorithm(context, "implicit_tile", tile_names[plan.tile]);
  took_algorithm(context, "implicit_split", split_names[std::countr_zero(static_cast<unsigned>(plan.split))]);
  return plan;
}

/// Lays the sum out for Loader's Unit 1.
inline void pad_runs(Factors& f) {
  const int rows = f.length / f.run, padded = (f.run + 3) / 4 * 4;
  f.channels = Divisor<std::uint32_t>(padded);
  f.length = rows * padded;
}

/// Divides the work of a launch; its grid.
template <class Tile>
Grid divide(Factors& p, int split) {
  p.tiles_n = static_cast<int>(ceil_div(p.O, Tile::columns)), p.split = split;
  p.per_split = static_cast<int>(ceil_div(ceil_div(p.length, split), depth)) * depth;
  Grid grid(static_cast<unsigned>(ceil_div(p.positions, Tile::rows) * p.tiles_n * split), Tile::threads,
            Tile::shared_bytes);
  grid.cluster = static_cast<unsigned>(split);
  return grid;
}

}  // namespace tern::cuda::implicit_tiles
