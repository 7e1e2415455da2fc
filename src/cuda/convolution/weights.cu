#include <algorithm>

#include "cuda/convolution/phases.cuh"
#include "cuda/convolution/weights.cuh"
#include "cuda/elements.cuh"
#include "cuda/elementwise.cuh"

namespace tern::cuda::convolution {
namespace {

/// The source of an element of a packed weight; -1 for the zeros of the padding.
struct WeightPlace {
  Divisor<std::uint32_t> channels, KW, C, block;
  int KH, real_KH, real_KW;
  __device__ std::int64_t operator()(std::uint32_t i) const {
    const auto channel = channels.split(i);
    const auto kw = static_cast<int>(KW.split(i));
    const auto o = static_cast<int>(i) / KH, kh = static_cast<int>(i) % KH;
    std::uint32_t rest = channel;
    const auto c = static_cast<int>(C.split(rest));
    const auto column = static_cast<int>(block.split(rest));
    const int row = static_cast<int>(rest), size = static_cast<int>(block.value());
    const int h = kh * size + row, w = kw * size + column;
    if (row >= size || h >= real_KH || w >= real_KW) return -1;
    return ((static_cast<std::int64_t>(o) * static_cast<int>(C.value()) + c) * real_KH + h) * real_KW + w;
  }
};

WeightPlace weight_place(const Problem& requested, const Problem& packed) {
  return {Divisor<std::uint32_t>(packed.C / requested.groups),
          Divisor<std::uint32_t>(packed.KW),
          Divisor<std::uint32_t>(requested.C / requested.groups),
          Divisor<std::uint32_t>(block_of(requested, packed)),
          static_cast<int>(packed.KH),
          static_cast<int>(requested.KH),
          static_cast<int>(requested.KW)};
}

template <class Out, class In>
__global__ void pack_weight_kernel(Out* out, const In* weight, std::uint32_t count, WeightPlace place) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads())) {
    const std::int64_t from = place(i);
    convert(out[i], from < 0 ? In{} : weight[from]);
  }
}

template <class Out, class In>
__global__ void unpack_weight_kernel(Out* weight, const In* in, std::uint32_t count, WeightPlace place) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads())) {
    const std::int64_t to = place(i);
    if (to >= 0) convert(weight[to], in[i]);
  }
}

// Between [rows, C, taps] and [rows, taps, C], through shared memory: a block has some rows, or some channels of one.
constexpr int taps_lanes = 32, taps_warps = 8, taps_threads = taps_lanes * taps_warps, most_taps = 128;

struct Taps {
  int C, taps;
  std::int64_t rows;
  int channels, rows_each, tiles;  ///< of a block, and how many share a row

  /// Elements of a block.
  int most() const { return channels * taps * rows_each; }
};
/// Enough blocks for the card, then enough work for each.
Taps taps_of(const Problem& requested) {
  constexpr int most = 4096;
  const std::int64_t wanted = 4 * std::int64_t{card().multiprocessors};
  Taps t{static_cast<int>(requested.C / requested.groups),
         static_cast<int>(requested.KH * requested.KW),
         requested.O,
         taps_lanes,
         1,
         1};
  const auto blocks = [&] { return t.rows / t.rows_each * ceil_div(t.C, t.channels); };
  while (t.channels < t.C && 2 * t.most() <= most && blocks() >= 2 * wanted) t.channels *= 2;
  if (t.channels >= t.C) {
    t.channels = t.C;
    while (2 * t.most() <= most && blocks() >= 2 * wanted) t.rows_each *= 2;
  }
  t.tiles = static_cast<int>(ceil_div(t.C, t.channels));
  return t;
}
Grid grid_of(const Taps& t) {
  return Grid(static_cast<unsigned>(ceil_div(t.rows, t.rows_each) * t.tiles), dim3(taps_lanes, taps_warps),
              sizeof(float) * static_cast<std::size_t>(t.most()));
}

/// A block's place: its rows and channels, and where they lie in [rows, C, taps].
struct TapsBlock {
  std::int64_t row, first;
  int channel, channels, rows;
  __device__ __forceinline__ explicit TapsBlock(const Taps& t) {
    row = static_cast<std::int64_t>(blockIdx.x) / t.tiles * t.rows_each;
    channel = static_cast<int>(blockIdx.x) % t.tiles * t.channels;
    channels = min(t.channels, t.C - channel);
    rows = static_cast<int>(min(static_cast<std::int64_t>(t.rows_each), t.rows - row));
    first = (row * t.C + channel) * t.taps;
  }
};

template <class Out, class In>
__global__ void __launch_bounds__(taps_threads)
    pack_taps_kernel(Out* out, const In* weight, const __grid_constant__ Taps t) {
  extern __shared__ float tile[];
  begin_kernel();
  const TapsBlock block(t);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y), thread = y * taps_lanes + x;
  constexpr int V = pack_size<In>;
  const int count = block.channels * t.taps * block.rows;
  const In* const from = weight + block.first;
  const int packs = reinterpret_cast<std::uintptr_t>(from) % sizeof(Pack<In, V>) == 0 ? count / V : 0;
#pragma unroll 4
  for (int i = thread; i < packs; i += taps_threads) {
    const Pack<In, V> values = *reinterpret_cast<const Pack<In, V>*>(from + i * V);
#pragma unroll
    for (int v = 0; v < V; ++v) tile[i * V + v] = widened(values.value[v]);
  }
#pragma unroll 4
  for (int i = packs * V + thread; i < count; i += taps_threads) tile[i] = widened(from[i]);
  __syncthreads();
  for (int line = y; line < block.rows * t.taps; line += taps_warps) {
    const int row = line / t.taps, tap = line % t.taps;
    Out* const to = out + ((block.row + row) * t.taps + tap) * t.C + block.channel;
    const float* const values = tile + row * block.channels * t.taps + tap;
#pragma unroll 4
    for (int lane = x; lane < block.channels; lane += taps_lanes) put(to[lane], values[lane * t.taps]);
  }
}

/// The inverse, of the sum of slices.
template <class Out, class In>
__global__ void __launch_bounds__(taps_threads)
    sum_taps_kernel(Out* weight, const In* partials, int slices, const __grid_constant__ Taps t) {
  extern __shared__ float tile[];
  begin_kernel();
  const TapsBlock block(t);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y), thread = y * taps_lanes + x;
  constexpr int together = 4;
  const std::int64_t step = t.rows * t.taps * t.C;
  for (int line = y; line < block.rows * t.taps; line += taps_warps) {
    const int row = line / t.taps, tap = line % t.taps;
    const In* const from = partials + ((block.row + row) * t.taps + tap) * t.C + block.channel;
    float* const values = tile + row * block.channels * t.taps + tap;
    for (int lane = x; lane < block.channels; lane += together * taps_lanes) {
      float sum[together] = {};
#pragma unroll 4
      for (int slice = 0; slice < slices; ++slice)
#pragma unroll
        for (int i = 0; i < together; ++i)
          if (const int at = lane + i * taps_lanes; at < block.channels) sum[i] += widened(from[slice * step + at]);
#pragma unroll
      for (int i = 0; i < together; ++i)
        if (const int at = lane + i * taps_lanes; at < block.channels) values[at * t.taps] = sum[i];
    }
  }
  __syncthreads();
  const int count = block.channels * t.taps * block.rows;
#pragma unroll 4
  for (int i = thread; i < count; i += taps_threads) put(weight[block.first + i], tile[i]);
}

bool fits_taps(const Problem& requested, const Problem& packed) {
  const std::int64_t taps = requested.KH * requested.KW;
  return same_image(requested, packed) && taps > 1 && taps <= most_taps;
}

/// The sizes of a weight, of one group.
struct FlippedPlace {
  Divisor<std::uint32_t> O, KW, KH, C;
  __device__ std::int64_t operator()(std::uint32_t i) const {
    const std::uint32_t o = O.split(i), kw = KW.split(i), kh = KH.split(i), c = C.split(i), group = i;
    const std::int64_t row = static_cast<std::int64_t>(group * O.value() + o) * C.value() + c;
    return (row * KH.value() + (KH.value() - 1 - kh)) * KW.value() + (KW.value() - 1 - kw);
  }
};

template <class Out, class In>
__global__ void flip_weight_kernel(Out* out, const In* weight, std::uint32_t count, FlippedPlace place) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads()))
    convert(out[i], weight[place(i)]);
}

/// The same without groups, transposed through shared memory: [C, taps, O] from [O, C, taps], the taps backwards.
constexpr int flip_tile = 32, flip_rows = 8;
template <class Out, class In>
__global__ void __launch_bounds__(flip_tile* flip_rows)
    flip_taps_kernel(Out* out, const In* weight, int O, int columns, Divisor<std::uint32_t> taps) {
  __shared__ In tile[flip_tile][flip_tile + 1];
  begin_kernel();
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int first_column = static_cast<int>(blockIdx.x) * flip_tile, first_o = static_cast<int>(blockIdx.y) * flip_tile;
#pragma unroll
  for (int i = y; i < flip_tile; i += flip_rows)
    if (first_o + i < O && first_column + x < columns)
      tile[i][x] = weight[static_cast<std::int64_t>(first_o + i) * columns + first_column + x];
  __syncthreads();
#pragma unroll
  for (int i = y; i < flip_tile; i += flip_rows) {
    if (first_column + i >= columns || first_o + x >= O) continue;
    int c, tap;
    taps.split(first_column + i, c, tap);
    const int row = c * static_cast<int>(taps.value()) + static_cast<int>(taps.value()) - 1 - tap;
    convert(out[static_cast<std::int64_t>(row) * O + first_o + x], tile[x][i]);
  }
}

/// Where the taps of a weight lie in one ordered by phases: the row of a tap for the first channel, and the rows of a
/// channel.
struct PhaseRows {
  int first[most_phase_taps], of_channel[most_phase_taps];
};

/// Likewise of each group, ordered by phases: [channels of all groups, taps, O] for each.
template <class Out, class In>
__global__ void __launch_bounds__(flip_tile* flip_rows)
    phase_taps_kernel(Out* out, const In* weight, int C, int O, Divisor<std::uint32_t> taps,
                      const __grid_constant__ PhaseRows rows) {
  __shared__ In tile[flip_tile][flip_tile + 1];
  begin_kernel();
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y), group = static_cast<int>(blockIdx.z);
  const int first_column = static_cast<int>(blockIdx.x) * flip_tile, first_o = static_cast<int>(blockIdx.y) * flip_tile;
  const int columns = C * static_cast<int>(taps.value());
#pragma unroll
  for (int i = y; i < flip_tile; i += flip_rows)
    if (first_o + i < O && first_column + x < columns)
      tile[i][x] = weight[(static_cast<std::int64_t>(group) * O + first_o + i) * columns + first_column + x];
  __syncthreads();
#pragma unroll
  for (int i = y; i < flip_tile; i += flip_rows) {
    if (first_column + i >= columns || first_o + x >= O) continue;
    int c, tap;
    taps.split(first_column + i, c, tap);
    const int row = rows.first[tap] + (group * C + c) * rows.of_channel[tap];
    convert(out[static_cast<std::int64_t>(row) * O + first_o + x], tile[x][i]);
  }
}

/// out [O, KH', KW', C' / groups] from weight [O, C / groups, KH, KW], and the inverse for a gradient.
template <class Out, class In>
void pack_in_order(const Context& context, Out* out, const In* weight, const Problem& requested,
                   const Problem& packed) {
  if (fits_taps(requested, packed)) {
    const Taps taps = taps_of(requested);
    return launch(context, grid_of(taps), pack_taps_kernel<Out, In>, out, weight, taps);
  }
  const std::int64_t count = packed.weights();
  launch(context, Grid(blocks_for(count), 256), pack_weight_kernel<Out, In>, out, weight,
         static_cast<std::uint32_t>(count), weight_place(requested, packed));
}
template <class Out, class In>
void unpack_in_order(const Context& context, Out* weight, const In* in, const Problem& requested,
                     const Problem& packed) {
  if (fits_taps(requested, packed)) {
    const Taps taps = taps_of(requested);
    return launch(context, grid_of(taps), sum_taps_kernel<Out, In>, weight, in, 1, taps);
  }
  const std::int64_t count = packed.weights();
  launch(context, Grid(blocks_for(count), 256), unpack_weight_kernel<Out, In>, weight, in,
         static_cast<std::uint32_t>(count), weight_place(requested, packed));
}

/// out [C, KH, KW, O / groups] from weight [O, C / groups, KH, KW], flipped by 180 degrees.
template <class Out, class In>
void flip_weight(const Context& context, Out* out, const In* weight, const Problem& requested) {
  const std::int64_t count = requested.weights(), columns = requested.C * requested.KH * requested.KW;
  const std::int64_t tiles = ceil_div(requested.O, flip_tile);
  if (requested.groups == 1 && tiles < 65536 && columns < std::int64_t{1} << 31)
    return launch(context,
                  Grid(dim3(static_cast<unsigned>(ceil_div(columns, flip_tile)), static_cast<unsigned>(tiles)),
                       dim3(flip_tile, flip_rows)),
                  flip_taps_kernel<Out, In>, out, weight, static_cast<int>(requested.O), static_cast<int>(columns),
                  Divisor<std::uint32_t>(requested.KH * requested.KW));
  const FlippedPlace place{Divisor<std::uint32_t>(requested.O / requested.groups), Divisor<std::uint32_t>(requested.KW),
                           Divisor<std::uint32_t>(requested.KH),
                           Divisor<std::uint32_t>(requested.C / requested.groups)};
  launch(context, Grid(blocks_for(count), 256), flip_weight_kernel<Out, In>, out, weight,
         static_cast<std::uint32_t>(count), place);
}

/// out ordered by phases from weight [O, C / groups, KH, KW].
template <class Out, class In>
void order_phases(const Context& context, Out* out, const In* weight, const Problem& requested) {
  PhaseRows rows{};
  for (const Phase& phase : phases_of(requested))
    for (std::int64_t i = 0; i < phase.taps(); ++i) {
      const std::int64_t row = i / phase.w.taps, column = i % phase.w.taps;
      const std::int64_t kh = phase.h.tap + (phase.h.taps - 1 - row) * phase.h.step,
                         kw = phase.w.tap + (phase.w.taps - 1 - column) * phase.w.step;
      rows.first[kh * requested.KW + kw] = static_cast<int>(phase.weight + i);
      rows.of_channel[kh * requested.KW + kw] = static_cast<int>(phase.taps());
    }
  const std::int64_t C = requested.C / requested.groups, O = requested.O / requested.groups,
                     taps = requested.KH * requested.KW;
  launch(context,
         Grid(dim3(static_cast<unsigned>(ceil_div(C * taps, flip_tile)), static_cast<unsigned>(ceil_div(O, flip_tile)),
                   static_cast<unsigned>(requested.groups)),
              dim3(flip_tile, flip_rows)),
         phase_taps_kernel<Out, In>, out, weight, static_cast<int>(C), static_cast<int>(O),
         Divisor<std::uint32_t>(taps), rows);
}

}  // namespace

void pack_weight(const Context& context, void* to, void* weight, const Problem& requested, const Task& task) {
  with_element(task.packed, to, weight, [&](auto* out, const auto* from) {
    task.by_phases ? order_phases(context, out, from, requested)
    : task.flipped ? flip_weight(context, out, from, requested)
                   : pack_in_order(context, out, from, requested, task.packed);
  });
}

void unpack_weight(const Context& context, void* weight, void* from, const Problem& requested, const Problem& packed) {
  with_element(packed, from, weight, [&](const auto* in, auto* own) {
    if (wide_weight(requested))
      unpack_in_order(context, static_cast<float*>(weight), in, requested, packed);
    else
      unpack_in_order(context, own, in, requested, packed);
  });
}

bool sums_weight(const Problem& requested, const Problem& packed, std::int64_t slices) {
  constexpr std::int64_t most = 64;  // more slices are added faster by more threads
  return slices <= most && fits_taps(requested, packed);
}

void sum_weight(const Context& context, float* weight, const float* partials, std::int64_t slices,
                const Problem& requested) {
  const Taps taps = taps_of(requested);
  launch(context, grid_of(taps), sum_taps_kernel<float, float>, weight, partials, static_cast<int>(slices), taps);
}

}  // namespace tern::cuda::convolution
