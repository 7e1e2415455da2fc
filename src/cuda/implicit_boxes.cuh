#pragma once
// Implicit products (implicit_tiles.cuh) whose stages the card's copy engine fills: one thread requests a box of
// positions by channels of x, in which the engine writes zeros for the padding, and a box of weights; the other warps
// only multiply. For compute capability 9.0.

#include "cuda/copy_engine.cuh"
#include "cuda/implicit_tiles.cuh"

namespace tern::cuda::implicit_boxes {

using namespace copy_engine;

/// A block's part of the product, its warps that multiply, the bytes of the sum in a stage, and the stages. A thread
/// has `adjacent` output channels of some rows: the boxes bring the weights in the order that makes it so.
template <int tile_rows, int tile_columns, int warps_by_row, int warps_by_column, int line_bytes, int stage_count>
struct Tile {
  static constexpr int rows = tile_rows, columns = tile_columns, warps_m = warps_by_row, warps_n = warps_by_column,
                       depth = line_bytes, stages = stage_count;
  static constexpr int threads = 32 * warps_m * warps_n;
  static constexpr int warp_rows = rows / warps_m, warp_columns = columns / warps_n;
  static constexpr int blocks_m = warp_rows / 16, blocks_n = warp_columns / 8, adjacent = 2 * blocks_n;
  static constexpr int units = 2 * blocks_m;                                // rows of a thread
  static constexpr int resident = std::max(1, std::min(3, 512 / threads));  // blocks with registers for all
  static constexpr int stage_bytes = (rows + columns) * depth;
  static_assert(blocks_n <= 4 && stage_bytes % 1024 == 0);
  /// What the others of a cluster send to a block.
  static constexpr int exchange_bytes(int split) {
    return split == 1 ? 0 : (split > units ? split : units) * adjacent * 4 * threads;
  }
  /// Of that, the bytes that come from others.
  static constexpr int gathered_bytes(int split) {
    return (split - 1) * (units / (split < units ? split : units)) * adjacent * 4 * threads;
  }
  /// `steps`: stages of a block's sum.
  static constexpr int shared_bytes(int split, int steps) {
    return 1024 + std::min(stages, steps) * stage_bytes + exchange_bytes(split) + (2 * stages + 1) * 8;
  }
};

struct Boxes {
  CUtensorMap x, weight;
  int positions, O, C, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  Divisor<std::uint32_t> OH, OW, KW, chunks, tiles_n;  ///< chunks: stages of a tap; tiles_n: tiles beside each other
  int tiles, steps, split, per_split;                  ///< steps: stages of the whole sum
  bool ahead;                                          ///< the weights may be read before the previous kernel has ended
};

// ---- the instructions ----

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ void copy_x(std::uint8_t* to, const CUtensorMap& map, int c, int w, int h, int image,
                                       int in_w, int in_h, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5}], [%6], {%7, %8};" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(c), "r"(w), "r"(h), "r"(image), "r"(shared_address(barrier)),
      "h"(static_cast<short>(in_w)), "h"(static_cast<short>(in_h))
      : "memory");
}
__device__ __forceinline__ void copy_weights(std::uint8_t* to, const CUtensorMap& map, int k, int group,
                                             std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %3, %3, "
      "%4}], [%5];" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(k), "r"(0), "r"(group), "r"(shared_address(barrier))
      : "memory");
}
__device__ __forceinline__ void let_next_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void await_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// To another block of the cluster, whose barrier counts the bytes.
__device__ __forceinline__ void send(void* to, std::uint64_t* barrier, unsigned rank, const int4& four) {
  unsigned address, counter;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(to)), "r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counter) : "r"(shared_address(barrier)), "r"(rank));
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w), "r"(counter)
      : "memory");
}
#endif

// ---- a block's work ----

/// Byte `k` of a line of a stage, as the engine permutes 16-byte chunks.
template <int depth>
__device__ __forceinline__ int place_of(int line, int k) {
  constexpr int chunks = depth / 16, lines = 128 / depth;  // that share all banks
  return line * depth + ((k / 16) ^ (line / lines % chunks)) * 16;
}

/// A warp's sums, blocks of 16 x 8. In the order of the boxes, column 8 n + 2 t + e of a warp is its channel
/// adjacent t + 2 n + e: lane t of four has adjacent ones.
template <class Tile, class Cores>
struct WarpSums {
  using Sum = typename Cores::Sum;
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int in_m = warp / Tile::warps_n * Tile::warp_rows, in_n = warp % Tile::warps_n * Tile::warp_columns;
  Sum sum[Tile::blocks_m][Tile::blocks_n][4] = {};

  struct Fragments {
    std::uint32_t a[Tile::blocks_m][4], b[Tile::blocks_n / 2][4];
  };
  __device__ __forceinline__ void read(Fragments& to, const std::uint8_t* stage, int k) const {
#pragma unroll
    for (int m = 0; m < Tile::blocks_m; ++m)
      implicit_tiles::load_blocks(to.a[m],
                                  stage + place_of<Tile::depth>(in_m + m * 16 + lane % 16, k + lane / 16 * 16));
#pragma unroll
    for (int n = 0; n < Tile::blocks_n / 2; ++n)
      implicit_tiles::load_blocks(
          to.b[n], stage + Tile::rows * Tile::depth +
                       place_of<Tile::depth>(in_n + n * 16 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 16));
  }
  __device__ __forceinline__ void add(const std::uint8_t* stage) {
    constexpr int pieces = Tile::depth / 32;
    Fragments fragments[2];
    read(fragments[0], stage, 0);
#pragma unroll
    for (int k = 0; k < pieces; ++k) {
      if (k + 1 < pieces) read(fragments[(k + 1) % 2], stage, (k + 1) * 32);
      const Fragments& by = fragments[k % 2];
#pragma unroll
      for (int m = 0; m < Tile::blocks_m; ++m)
#pragma unroll
        for (int n = 0; n < Tile::blocks_n; ++n)
          Cores::multiply_add(sum[m][n], by.a[m], by.b[n / 2][n % 2 * 2], by.b[n / 2][n % 2 * 2 + 1]);
    }
  }
  __device__ __forceinline__ int row_of(int unit) const { return in_m + unit * 8 + lane / 4; }
  /// Of a row: the adjacent ones.
  __device__ __forceinline__ void take(Sum (&to)[Tile::adjacent], int unit) const {
#pragma unroll
    for (int i = 0; i < Tile::adjacent; ++i) to[i] = sum[unit / 2][i / 2][unit % 2 * 2 + i % 2];
  }
};

/// Requests stages of a block's sum; for one thread.
template <class Tile>
struct Requests {
  const Boxes& p;
  std::uint8_t* ring;
  std::uint64_t* full;
  int begin, first_row, first_column;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __device__ __forceinline__ void weights(int at, int slot) const {
    int tap, chunk;
    p.chunks.split(begin + at, tap, chunk);
    expect_bytes(full + slot, Tile::stage_bytes);
    copy_weights(ring + slot * Tile::stage_bytes + Tile::rows * Tile::depth, p.weight, tap * p.C + chunk * Tile::depth,
                 first_column / (4 * Tile::adjacent), full + slot);
  }
  /// Where the first row's begins.
  struct Window {
    int image, h, w;
  };
  __device__ __forceinline__ Window window() const {
    auto image = static_cast<std::uint32_t>(first_row);
    const int w = static_cast<int>(p.OW.split(image)) * p.stride_w - p.pad_w;
    const int h = static_cast<int>(p.OH.split(image)) * p.stride_h - p.pad_h;
    return {static_cast<int>(image), h, w};
  }
  __device__ __forceinline__ void of_x(int at, int slot, const Window& from) const {
    int tap, chunk, kh, kw;
    p.chunks.split(begin + at, tap, chunk);
    p.KW.split(tap, kh, kw);
    copy_x(ring + slot * Tile::stage_bytes, p.x, chunk * Tile::depth, from.w, from.h, from.image, kw * p.dilation_w,
           kh * p.dilation_h, full + slot);
  }
  /// Those that the ring has room for.
  __device__ __forceinline__ void first(int steps) const {
    const int count = min(steps, Tile::stages);
    fetch_map(p.x), fetch_map(p.weight);
    for (int at = 0; at < (p.ahead ? count : 0); ++at) weights(at, at);
    const Window from = window();
    asm volatile("" ::"r"(from.image), "r"(from.h), "r"(from.w));  // computed before it waits
    await_previous();
#pragma unroll 1
    for (int at = 0; at < count; ++at) {
      if (!p.ahead) weights(at, at);
      of_x(at, at, from);
    }
  }
#endif
};

/// Adds the parts of a cluster's blocks in their order: each block gets some of the rows of all.
template <class Tile, class Cores, class Body>
__device__ __forceinline__ void exchange_sums(const WarpSums<Tile, Cores>& sums, int4* exchange,
                                              std::uint64_t* gathered, int rank, int split, const Body& body) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using Sum = typename Cores::Sum;
  constexpr int vectors = Tile::adjacent / 4;
  const int owners = min(split, Tile::units), shift = __ffs(owners) - 1, per_owner = Tile::units >> shift;
  const auto slot_of = [&](int source, int unit, int vector) {
    return exchange + ((source * per_owner + (unit >> shift)) * vectors + vector) * Tile::threads + threadIdx.x;
  };
  __syncwarp();
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");  // all have begun
#pragma unroll
  for (int unit = 0; unit < Tile::units; ++unit) {
    const int owner = unit & (owners - 1);
    if (owner == rank) continue;
    alignas(16) Sum of_row[Tile::adjacent];
    sums.take(of_row, unit);
#pragma unroll
    for (int v = 0; v < vectors; ++v)
      send(slot_of(rank, unit, v), gathered, static_cast<unsigned>(owner), reinterpret_cast<const int4*>(of_row)[v]);
  }
  if (rank >= owners) return;
  await(gathered, 0);
  __syncwarp();
#pragma unroll
  for (int unit = 0; unit < Tile::units; ++unit) {
    if ((unit & (owners - 1)) != rank) continue;
    Sum own[Tile::adjacent], total[Tile::adjacent] = {};
    sums.take(own, unit);
    for (int source = 0; source < split; ++source) {
      alignas(16) Sum part[Tile::adjacent];
#pragma unroll
      for (int v = 0; v < vectors; ++v) reinterpret_cast<int4*>(part)[v] = *slot_of(source, unit, v);
#pragma unroll
      for (int i = 0; i < Tile::adjacent; ++i) total[i] = Cores::add(total[i], source == rank ? own[i] : part[i]);
    }
    body(unit, total);
  }
#endif
}

/// Channels::load(product, o) reads what a thread needs of its adjacent output channels, from o on; fetch(product,
/// position) what it needs for one position, and finish(product, position, sums, fetched) writes the results.
template <class Tile, class Cores, class Channels, class Product>
__device__ __forceinline__ void run_tile(std::uint8_t* shared, const Product& product) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const Boxes& p = product.boxes;
  std::uint8_t* const ring = shared + (1024 - shared_address(shared) % 1024) % 1024;
  auto* const exchange = reinterpret_cast<int4*>(ring + min(Tile::stages, p.per_split) * Tile::stage_bytes);
  auto* const full = reinterpret_cast<std::uint64_t*>(exchange) + Tile::exchange_bytes(p.split) / 8;
  std::uint64_t *const empty = full + Tile::stages, *const gathered = empty + Tile::stages;
  const int rank = static_cast<int>(blockIdx.x) & (p.split - 1), shift = __ffs(p.split) - 1;  // powers of two
  int row, column;
  p.tiles_n.split(static_cast<int>(blockIdx.x) >> shift, row, column);
  const int first_row = row * Tile::rows, first_column = column * Tile::columns;
  const int begin = rank * p.per_split, steps = max(0, min(p.per_split, p.steps - begin));
  if (threadIdx.x == 0) {
    for (int i = 0; i < Tile::stages; ++i) start_barrier(full + i, 1), start_barrier(empty + i, Tile::threads / 32);
    if (p.split > 1) start_barrier(gathered, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (p.split > 1 && rank < Tile::units) expect_bytes(gathered, Tile::gathered_bytes(p.split));
  }
  let_next_start();
  __syncthreads();
  if (p.split > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  WarpSums<Tile, Cores> sums;
  const Requests<Tile> requests{p, ring, full, begin, first_row, first_column};
  if (threadIdx.x == 0) requests.first(steps);
  await_previous();
  __syncwarp();
  const int o = first_column + sums.in_n + sums.lane % 4 * Tile::adjacent;
  const bool exists = o < p.O;
  const int owners = min(p.split, Tile::units);
  Channels channels;
  typename Channels::Fetched fetched[Tile::units];
  const auto fetch = [&] {
    channels.load(product, exists ? o : 0);
#pragma unroll
    for (int unit = 0; unit < Tile::units; ++unit)
      if (exists && (unit & (owners - 1)) == rank && first_row + sums.row_of(unit) < p.positions)
        fetched[unit] = channels.fetch(product, first_row + sums.row_of(unit));
  };
  constexpr bool registers_suffice = Tile::units <= 4;
  if (registers_suffice) fetch();
  int slot = 0, phase = 0;
#pragma unroll 1
  for (int at = 0; at < steps; ++at) {
    // The stage that all warps have left is filled again.
    if (const int next = at - 1 + Tile::stages; at > 0 && next < steps && threadIdx.x == 0) {
      const int left = slot == 0 ? Tile::stages - 1 : slot - 1;
      await(empty + left, slot == 0 ? phase ^ 1 : phase);
      requests.weights(next, left), requests.of_x(next, left, requests.window());
    }
    await(full + slot, phase);
    __syncwarp();
    sums.add(ring + slot * Tile::stage_bytes);
    if (at + Tile::stages < steps) {
      __syncwarp();
      if (sums.lane == 0) arrive(empty + slot);
    }
    if (++slot == Tile::stages) slot = 0, phase ^= 1;
  }
  if (!registers_suffice) fetch();
  const auto finish = [&](int unit, const auto& totals) {
    const int position = first_row + sums.row_of(unit);
    if (exists && position < p.positions) channels.finish(product, position, totals, fetched[unit]);
  };
  if (p.split > 1) {
    exchange_sums(sums, exchange, gathered, rank, p.split, finish);
  } else {
#pragma unroll
    for (int unit = 0; unit < Tile::units; ++unit) {
      typename Cores::Sum of_row[Tile::adjacent];
      sums.take(of_row, unit);
      finish(unit, of_row);
    }
  }
#endif
}

}  // namespace tern::cuda::implicit_boxes
