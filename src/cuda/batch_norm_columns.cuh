#pragma once
// Batch normalisation of [rows, channels]: channels last, or without positions. Threads own packs of adjacent channels.

#include <cooperative_groups.h>

#include <cstdlib>
#include <cstring>

#include "cuda/batch_norm.cuh"

namespace tern::cuda {

struct Columns {
  std::int64_t rows, channels;
  Slices slices;  ///< of the rows
};

inline constexpr unsigned tile_threads = 256;

/// The tile of a block: blockDim.x packs of channels by one slice of the rows, blockDim.y rows at a time.
template <int V>
struct ColumnTile {
  std::int64_t slice, channel, first, end;
  __device__ explicit ColumnTile(const Columns& columns, bool backwards = false) {
    const auto tiles = gridDim.x / static_cast<unsigned>(columns.slices.count);
    const unsigned item = backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    place(columns, item % tiles, item / tiles);
  }
  __device__ ColumnTile(const Columns& columns, std::int64_t tile, std::int64_t of_rows) {
    place(columns, tile, of_rows);
  }

 private:
  __device__ void place(const Columns& columns, std::int64_t tile, std::int64_t of_rows) {
    slice = of_rows;
    channel = (tile * blockDim.x + threadIdx.x) * V;
    first = slice * columns.slices.slice + threadIdx.y;
    end = channel < columns.channels ? min((slice + 1) * columns.slices.slice, columns.rows) : 0;
  }
};

template <int V, class Pass>
__device__ void gather_rows(const Columns& columns, const Pass& pass, const ColumnTile<V>& tile,
                            typename Pass::State (&state)[V]) {
  constexpr int R = Pass::rows_at_once;
#pragma unroll
  for (int lane = 0; lane < V; ++lane) state[lane] = pass.init();
  if (tile.channel >= columns.channels) return;
  typename Pass::Channel channel[V];
#pragma unroll
  for (int lane = 0; lane < V; ++lane) channel[lane] = pass.channel(tile.channel + lane);
  const std::int64_t step = blockDim.y;
  std::int64_t row = tile.first;
  for (; row + (R - 1) * step < tile.end; row += R * step) {
    typename Pass::template Inputs<V> inputs[R];
#pragma unroll
    for (int i = 0; i < R; ++i) inputs[i] = pass.template read<V>((row + i * step) * columns.channels + tile.channel);
#pragma unroll
    for (int lane = 0; lane < V; ++lane) pass.add(state[lane], channel[lane], pass.of_lane(inputs, lane));
  }
  for (; row < tile.end; row += step) {
    const typename Pass::template Inputs<V> inputs[1]{pass.template read<V>(row * columns.channels + tile.channel)};
#pragma unroll
    for (int lane = 0; lane < V; ++lane) pass.add(state[lane], channel[lane], pass.of_lane(inputs, lane));
  }
}

/// Combines the states of the block's rows by a tree over y; row 0 has the result.
template <int V, class State, class Combine>
__device__ void reduce_rows_of_block(State (&state)[V], const Combine& combine) {
  __shared__ alignas(16) unsigned char storage[tile_threads * V * sizeof(State)];
  State* const shared = reinterpret_cast<State*>(storage);
  const auto at = [&](unsigned y, int lane) -> State& {
    return shared[(static_cast<unsigned>(lane) * blockDim.y + y) * blockDim.x + threadIdx.x];
  };
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      if (threadIdx.y >= half && threadIdx.y < 2 * half) at(threadIdx.y, lane) = state[lane];
    }
    __syncthreads();
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      if (threadIdx.y < half) state[lane] = combine(state[lane], at(threadIdx.y + half, lane));
    }
  }
}

template <class T, int R, int V, class Pass>
__device__ void apply_rows(const Columns& columns, const Pass& pass, const ColumnTile<V>& tile,
                           const typename Pass::Channel (&channel)[V]) {
  const std::int64_t step = blockDim.y;
  for (std::int64_t row = tile.first; row < tile.end; row += R * step) {
    typename Pass::template All<V> in[R];
#pragma unroll
    for (int i = 0; i < R; ++i) {
      if (row + i * step < tile.end) in[i] = pass.template all<V>((row + i * step) * columns.channels + tile.channel);
    }
#pragma unroll
    for (int i = 0; i < R; ++i) {
      Pack<Scalar<T>, V> values;
#pragma unroll
      for (int lane = 0; lane < V; ++lane) values.value[lane] = pass.value(channel[lane], in[i], lane);
      if (row + i * step < tile.end)
        store<V>(pass.output() + (row + i * step) * columns.channels + tile.channel, values);
    }
  }
}

/// Few rows: a block does everything for its channels.
template <int V, class Pass>
__global__ void __launch_bounds__(tile_threads) whole_columns_kernel(Columns columns, Pass pass) {
  begin_kernel();
  __shared__ alignas(16) unsigned char storage[32 * V * sizeof(typename Pass::Channel)];
  auto* const shared = reinterpret_cast<typename Pass::Channel*>(storage);
  const ColumnTile<V> tile(columns);
  typename Pass::State state[V];
  gather_rows(columns, pass, tile, state);
  reduce_rows_of_block(state, pass);
  typename Pass::Channel channel[V];
  if (threadIdx.y == 0 && tile.channel < columns.channels) {
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      shared[threadIdx.x * V + lane] = pass.finish(tile.channel + lane, state[lane], true);
  }
  __syncthreads();
  if (pass.output() == nullptr) return;
#pragma unroll
  for (int lane = 0; lane < V; ++lane) channel[lane] = shared[threadIdx.x * V + lane];
  apply_rows<std::remove_pointer_t<decltype(pass.output())>, Pass::rows_at_once / 2>(columns, pass, tile, channel);
}

inline constexpr unsigned narrow_threads = 512;  ///< of a block of narrow_columns_kernel, at most
inline constexpr int narrow_rows = 4;            ///< of a thread, at most, which holds them
inline constexpr unsigned narrow_packs = 4;      ///< of channels per block: of 16 bits, a sector of a line
inline constexpr unsigned most_parts = 8;        ///< blocks of a cluster on every card that has them

/// The same with narrow tiles, so that there are more blocks, and threads hold the few rows that they have: all are
/// read at once, and only once. The blocks of a cluster have a slice of a tile's rows each, and exchange their states.
template <int V, class Pass>
__global__ void __launch_bounds__(narrow_threads, 1) narrow_columns_kernel(Columns columns, Pass pass) {
  begin_kernel();
  using State = typename Pass::State;
  using Channel = typename Pass::Channel;
  constexpr unsigned numbers = narrow_packs * V, most_warps = narrow_threads / 32;
  __shared__ alignas(16) unsigned char states[most_warps * numbers * sizeof(State)];
  __shared__ alignas(16) unsigned char channels[numbers * sizeof(Channel)];
  __shared__ alignas(16) unsigned char blocks[numbers * sizeof(State)];
  auto* const of_warps = reinterpret_cast<State*>(states);
  auto* const of_block = reinterpret_cast<State*>(blocks);
  auto* const shared = reinterpret_cast<Channel*>(channels);
  const auto parts = static_cast<unsigned>(columns.slices.count);
  const ColumnTile<V> tile(columns, blockIdx.x / parts, blockIdx.x % parts);
  int count = 0;
#pragma unroll
  for (int i = 0; i < narrow_rows; ++i) count += tile.first + i * blockDim.y < tile.end ? 1 : 0;
  const auto offset_of = [&](int i) { return (tile.first + i * blockDim.y) * columns.channels + tile.channel; };
  typename Pass::template All<V> rows[narrow_rows];
  Channel channel[V];
  State state[V];
#pragma unroll
  for (int lane = 0; lane < V; ++lane) state[lane] = pass.init();
  if (count > 0) {  // no branch between the loads: the first row stands in for missing ones
#pragma unroll
    for (int lane = 0; lane < V; ++lane) channel[lane] = pass.channel(tile.channel + lane);
#pragma unroll
    for (int i = 0; i < narrow_rows; ++i) rows[i] = pass.template held<V>(offset_of(i < count ? i : 0));
#pragma unroll
    for (int lane = 0; lane < V; ++lane) pass.add_held(state[lane], channel[lane], rows, count, lane);
#pragma unroll
    for (int i = 0; i < narrow_rows; ++i)
      if (i < count) pass.keep(offset_of(i), rows[i]);
  }
  const unsigned thread = threadIdx.y * narrow_packs + threadIdx.x, warp = thread / 32, lane_of_warp = thread % 32;
  const unsigned warps = blockDim.y * narrow_packs / 32;
  const auto combine = [&](State& own, unsigned distance) {
    own = pass(own, shuffled(own, [&](unsigned word) { return __shfl_down_sync(0xffffffffu, word, distance); }));
  };
#pragma unroll
  for (int lane = 0; lane < V; ++lane) {
#pragma unroll
    for (unsigned distance = 16; distance >= narrow_packs; distance /= 2) combine(state[lane], distance);
    if (lane_of_warp < narrow_packs) of_warps[warp * numbers + threadIdx.x * V + lane] = state[lane];
  }
  __syncthreads();
  const std::int64_t first = tile.channel - threadIdx.x * V;
  for (unsigned number = warp; number < numbers; number += warps) {
    State own = lane_of_warp < warps ? of_warps[lane_of_warp * numbers + number] : pass.init();
#pragma unroll
    for (unsigned distance = 16; distance > 0; distance /= 2) combine(own, distance);
    if (lane_of_warp == 0 && parts > 1) of_block[number] = own;
    if (lane_of_warp == 0 && parts == 1 && first + number < columns.channels)
      shared[number] = pass.finish(first + number, own, true);
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (parts > 1) {
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    for (unsigned number = warp; number < numbers; number += warps) {
      State own = lane_of_warp < parts ? *cluster.map_shared_rank(of_block + number, lane_of_warp) : pass.init();
#pragma unroll
      for (unsigned distance = most_parts / 2; distance > 0; distance /= 2) combine(own, distance);
      if (lane_of_warp == 0 && first + number < columns.channels)
        shared[number] = pass.finish(first + number, own, tile.slice == 0);
    }
    cluster.sync();  // nobody leaves while its states may be read
  }
#endif
  __syncthreads();
  if (pass.output() == nullptr) return;
#pragma unroll
  for (int lane = 0; lane < V; ++lane) channel[lane] = shared[threadIdx.x * V + lane];
#pragma unroll
  for (int i = 0; i < narrow_rows; ++i) {
    if (i >= count) continue;
    Pack<Scalar<std::remove_pointer_t<decltype(pass.output())>>, V> values;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) values.value[lane] = pass.value(channel[lane], rows[i], lane);
    store<V>(pass.output() + offset_of(i), values);
  }
}

/// The rows of a thread, R and then fewer at a time.
template <int R, int V, class Pass>
__device__ void gather_rounds(const Columns& columns, const Pass& pass, const ColumnTile<V>& tile, std::int64_t& row,
                              const typename Pass::Channel (&channel)[V], typename Pass::State (&state)[V]) {
  const std::int64_t step = blockDim.y;
  for (; row + (R - 1) * step < tile.end; row += R * step) {
    typename Pass::template Inputs<V> inputs[R];
#pragma unroll
    for (int i = 0; i < R; ++i) inputs[i] = pass.template read<V>((row + i * step) * columns.channels + tile.channel);
#pragma unroll
    for (int lane = 0; lane < V; ++lane) pass.add(state[lane], channel[lane], pass.of_lane(inputs, lane));
  }
  if constexpr (R > 1) gather_rounds<R / 2>(columns, pass, tile, row, channel, state);
}

/// The same with narrow tiles, so that there are more blocks and more threads for each row. The blocks of a cluster
/// have a slice of a tile's rows each, and exchange their states.
template <int V, class Pass>
__global__ void __launch_bounds__(narrow_threads) old_narrow_columns_kernel(Columns columns, Pass pass) {
  begin_kernel();
  using State = typename Pass::State;
  using Channel = typename Pass::Channel;
  constexpr unsigned numbers = narrow_packs * V, most_warps = narrow_threads / 32;
  __shared__ alignas(16) unsigned char states[most_warps * numbers * sizeof(State)];
  __shared__ alignas(16) unsigned char channels[numbers * sizeof(Channel)];
  __shared__ alignas(16) unsigned char blocks[numbers * sizeof(State)];
  auto* const of_warps = reinterpret_cast<State*>(states);
  auto* const of_block = reinterpret_cast<State*>(blocks);
  auto* const shared = reinterpret_cast<Channel*>(channels);
  const auto parts = static_cast<unsigned>(columns.slices.count);
  const ColumnTile<V> tile(columns, blockIdx.x / parts, blockIdx.x % parts);
  Channel channel[V];
  State state[V];
#pragma unroll
  for (int lane = 0; lane < V; ++lane) {
    state[lane] = pass.init();
    if (tile.channel < columns.channels) channel[lane] = pass.channel(tile.channel + lane);
  }
  std::int64_t row = tile.first;
  gather_rounds<Pass::rows_at_once>(columns, pass, tile, row, channel, state);
  const unsigned thread = threadIdx.y * narrow_packs + threadIdx.x, warp = thread / 32, lane_of_warp = thread % 32;
  const unsigned warps = blockDim.y * narrow_packs / 32;
  const auto combine = [&](State& own, unsigned distance) {
    own = pass(own, shuffled(own, [&](unsigned word) { return __shfl_down_sync(0xffffffffu, word, distance); }));
  };
#pragma unroll
  for (int lane = 0; lane < V; ++lane) {
#pragma unroll
    for (unsigned distance = 16; distance >= narrow_packs; distance /= 2) combine(state[lane], distance);
    if (lane_of_warp < narrow_packs) of_warps[warp * numbers + threadIdx.x * V + lane] = state[lane];
  }
  __syncthreads();
  const std::int64_t first = tile.channel - threadIdx.x * V;
  for (unsigned number = warp; number < numbers; number += warps) {
    State own = lane_of_warp < warps ? of_warps[lane_of_warp * numbers + number] : pass.init();
#pragma unroll
    for (unsigned distance = 16; distance > 0; distance /= 2) combine(own, distance);
    if (lane_of_warp == 0 && parts > 1) of_block[number] = own;
    if (lane_of_warp == 0 && parts == 1 && first + number < columns.channels)
      shared[number] = pass.finish(first + number, own, true);
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (parts > 1) {
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    for (unsigned number = warp; number < numbers; number += warps) {
      State own = lane_of_warp < parts ? *cluster.map_shared_rank(of_block + number, lane_of_warp) : pass.init();
#pragma unroll
      for (unsigned distance = most_parts / 2; distance > 0; distance /= 2) combine(own, distance);
      if (lane_of_warp == 0 && first + number < columns.channels)
        shared[number] = pass.finish(first + number, own, tile.slice == 0);
    }
    cluster.sync();  // nobody leaves while its states may be read
  }
#endif
  __syncthreads();
  if (pass.output() == nullptr) return;
#pragma unroll
  for (int lane = 0; lane < V; ++lane) channel[lane] = shared[threadIdx.x * V + lane];
  apply_rows<std::remove_pointer_t<decltype(pass.output())>, Pass::rows_at_once>(columns, pass, tile, channel);
}

/// partial: [slices, channels].
template <int V, class Pass>
__global__ void __launch_bounds__(tile_threads)
    gather_columns_kernel(Columns columns, Pass pass, typename Pass::State* partial) {
  begin_kernel();
  const ColumnTile<V> tile(columns);
  typename Pass::State state[V];
  gather_rows(columns, pass, tile, state);
  reduce_rows_of_block(state, pass);
  if (threadIdx.y > 0 || tile.channel >= columns.channels) return;
#pragma unroll
  for (int lane = 0; lane < V; ++lane) partial[tile.slice * columns.channels + tile.channel + lane] = state[lane];
}

/// The channels' statistics between two kernels, stored number by number, so that adjacent threads read adjacent
/// values.
template <class T, class Channel>
struct Finished {
  static constexpr int numbers = sizeof(Channel) / sizeof(T);
  static_assert(sizeof(Channel) == numbers * sizeof(T) && std::is_trivially_copyable_v<Channel>);
  T* values = nullptr;  ///< [numbers, channels]
  std::int64_t channels = 0;

  __device__ void store(std::int64_t c, const Channel& channel) const {
    T all[numbers];
    memcpy(all, &channel, sizeof(Channel));
#pragma unroll
    for (int i = 0; i < numbers; ++i) values[i * channels + c] = all[i];
  }
  template <int V>
  __device__ void load(std::int64_t c, Channel (&channel)[V]) const {
    T all[V][numbers];
#pragma unroll
    for (int i = 0; i < numbers; ++i) {
      const Pack<T, V> pack = cuda::load<V>(values + i * channels + c);
#pragma unroll
      for (int lane = 0; lane < V; ++lane) all[lane][i] = pack.value[lane];
    }
#pragma unroll
    for (int lane = 0; lane < V; ++lane) memcpy(&channel[lane], all[lane], sizeof(Channel));
  }
};

template <class Pass, class T>
__global__ void __launch_bounds__(tile_threads)
    finish_columns_kernel(Columns columns, Pass pass, const typename Pass::State* partial,
                          Finished<T, typename Pass::Channel> finished) {
  begin_kernel();
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  typename Pass::State state[1]{pass.init()};
  if (c < columns.channels) {
#pragma unroll 4
    for (std::int64_t slice = threadIdx.y; slice < columns.slices.count; slice += blockDim.y)
      state[0] = pass(state[0], partial[slice * columns.channels + c]);
  }
  reduce_rows_of_block(state, pass);
  if (threadIdx.y == 0 && c < columns.channels) finished.store(c, pass.finish(c, state[0], true));
}

/// `finished` is empty if the pass knows the statistics itself.
template <int V, class Pass, class T>
__global__ void __launch_bounds__(tile_threads, sizeof(T) == 4 ? 4 : 1)
    apply_columns_kernel(Columns columns, Pass pass, Finished<T, typename Pass::Channel> finished) {
  begin_kernel();
  // The last rows first: they were read last, so some are still in the cache.
  const ColumnTile<V> tile(columns, true);
  if (tile.channel >= columns.channels) return;
  typename Pass::Channel channel[V];
  if constexpr (requires { pass.statistics(tile.channel); }) {
#pragma unroll
    for (int lane = 0; lane < V; ++lane) channel[lane] = pass.statistics(tile.channel + lane);
  } else {
    finished.load(tile.channel, channel);
  }
  apply_rows<std::remove_pointer_t<decltype(pass.output())>, Pass::rows_at_once / 2>(columns, pass, tile, channel);
}

// ---- launches ----

/// Rows that a block with this many packs of channels processes at a time: a power of two, because a tree adds them.
inline unsigned tile_rows(unsigned packs) {
  unsigned rows = 1;
  while (2 * rows * packs <= tile_threads) rows *= 2;
  return rows;
}

/// Packs of channels per block: leaves the fewest threads idle, a full warp if possible.
inline unsigned tile_packs(std::int64_t packs) {
  unsigned best = 4;
  while (best < 8 && best < packs) best *= 2;
  const auto busy = [packs](unsigned x) {
    return static_cast<double>(tile_rows(x)) * static_cast<double>(packs) / static_cast<double>(ceil_div(packs, x));
  };
  for (unsigned x = 9; x <= 32; ++x)
    if (packs >= x && busy(x) >= busy(best)) best = x;
  return best;
}

inline Columns sliced(std::int64_t rows, std::int64_t channels, std::int64_t slice) {
  return {rows, channels, {ceil_div(rows, slice), slice}};
}

inline Grid column_grid(const Columns& columns, int V) {
  const std::int64_t packs = ceil_div(columns.channels, V);
  const unsigned x = tile_packs(packs);
  return Grid(static_cast<unsigned>(ceil_div(packs, x) * columns.slices.count), dim3(x, tile_rows(x)));
}

template <int V, class Pass, class T>
void apply_columns_of(Context& context, std::int64_t rows, std::int64_t channels, const Pass& pass,
                      const Finished<T, typename Pass::Channel>& finished) {
  const Columns columns = sliced(rows, channels, 16 * tile_rows(tile_packs(ceil_div(channels, V))));
  launch(context, column_grid(columns, V), apply_columns_kernel<V, Pass, T>, columns, pass, finished);
}

/// Applies a pass with known statistics to [rows, channels].
template <class T, class Pass>
void apply_columns(Context& context, std::int64_t rows, std::int64_t channels, bool packable, const Pass& pass) {
  constexpr int V = pack_of_registers<T>;
  if (packable && channels % V == 0)
    apply_columns_of<V>(context, rows, channels, pass, Finished<Scalar<T>, typename Pass::Channel>{});
  else
    apply_columns_of<1>(context, rows, channels, pass, Finished<Scalar<T>, typename Pass::Channel>{});
}

/// How narrow tiles of so many rows are cut: into slices for the blocks of a cluster. No slices: for more elements
/// three kernels are faster.
struct NarrowCut {
  Slices slices{0, 0};
  unsigned threads = 128;  ///< of a block

  NarrowCut(std::int64_t rows, std::int64_t tiles) {
    constexpr std::int64_t most_rows = narrow_threads / narrow_packs * narrow_rows;
    constexpr std::int64_t busy = 128, least_rows = 128;  // blocks for most of a card; rows that are worth a block
    constexpr std::int64_t most_tiled = 1 << 17;          // rows of tiles
    static const bool old = std::getenv("TERN_OLD_CLUSTERS") != nullptr;
    if (rows > most_rows && (old || !card().overlap || rows > most_parts * most_rows || rows * tiles > most_tiled))
      return;
    std::int64_t parts = 1;
    while (rows > parts * most_rows ||
           (parts > 1 && parts < most_parts && tiles * parts < busy && rows >= 2 * parts * least_rows))
      parts *= 2;
    slices = {parts, ceil_div(rows, parts)};
    while (threads / narrow_packs * narrow_rows < slices.slice) threads *= 2;
  }
};

template <class T, int V, class Pass>
void over_columns_of(Context& context, std::int64_t rows, std::int64_t channels, const Pass& pass) {
  if constexpr (V > 1)
    if (const NarrowCut cut(rows, ceil_div(channels, narrow_packs * V)); cut.slices.count > 0) {
      Grid grid(static_cast<unsigned>(ceil_div(channels, narrow_packs * V) * cut.slices.count),
                dim3(narrow_packs, cut.threads / narrow_packs));
      grid.cluster = static_cast<unsigned>(cut.slices.count);
      static const bool old = std::getenv("TERN_OLD_HELD") != nullptr;
      return launch(context, grid, old ? old_narrow_columns_kernel<V, Pass> : narrow_columns_kernel<V, Pass>,
                    Columns{rows, channels, cut.slices}, pass);
    }
  const unsigned x = tile_packs(ceil_div(channels, V)), y = tile_rows(x);
  const std::int64_t tiles = ceil_div(ceil_div(channels, V), x);
  // A second and a third kernel cost about as much as 64 iterations of a block.
  if (rows <= 64 * y || tiles >= 384) {
    const Columns columns{rows, channels, {1, rows}};
    return launch(context, column_grid(columns, V), whole_columns_kernel<V, Pass>, columns, pass);
  }
  const std::int64_t turn = y * Pass::rows_at_once;
  const std::int64_t slice = ceil_div(ceil_div(rows, ceil_div(384, tiles)), turn) * turn;
  const Columns columns = sliced(rows, channels, slice);
  using State = typename Pass::State;
  using Channel = typename Pass::Channel;
  Scratch partial(context, static_cast<std::size_t>(columns.slices.count * channels) * sizeof(State));
  Scratch numbers(context, static_cast<std::size_t>(channels) * sizeof(Channel));
  const Finished<Scalar<T>, Channel> finished{numbers.as<Scalar<T>>(), channels};
  launch(context, column_grid(columns, V), gather_columns_kernel<V, Pass>, columns, pass, partial.as<State>());
  launch(context, Grid(static_cast<unsigned>(ceil_div(channels, 8)), dim3(8, tile_threads / 8)),
         finish_columns_kernel<Pass, Scalar<T>>, columns, pass, partial.as<State>(), finished);
  if (pass.output() != nullptr) apply_columns_of<V>(context, rows, channels, pass, finished);
}

/// Runs a pass over [rows, channels].
template <class T, class Pass>
void over_columns(Context& context, std::int64_t rows, std::int64_t channels, bool packable, const Pass& pass) {
  constexpr int V = pack_of_registers<T>;
  if (packable && channels % V == 0)
    over_columns_of<T, V>(context, rows, channels, pass);
  else
    over_columns_of<T, 1>(context, rows, channels, pass);
}

}  // namespace tern::cuda
