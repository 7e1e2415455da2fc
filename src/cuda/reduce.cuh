#pragma once
// Reductions in a fixed order: threads walk fixed elements, groups combine in a fixed tree, and work that is split over
// blocks leaves partial states that a second kernel combines. There are no atomics, and the split depends only on the
// sizes, so the bits are the same on every card.

#include <bit>
#include <limits>
#include <type_traits>

#include "cuda/elementwise.cuh"

namespace tern::cuda {

template <class T>
__device__ constexpr T infinity() {
  return std::numeric_limits<T>::infinity();
}

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Largest {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return ::fmax(a, b);
  }
};

/// A shuffle of any plain struct, word by word.
template <class State, class Shuffle>
__device__ State shuffled(const State& state, Shuffle shuffle) {
  static_assert(sizeof(State) % 4 == 0 && std::is_trivially_copyable_v<State>);
  struct Words {
    unsigned word[sizeof(State) / 4];
  };
  auto words = std::bit_cast<Words>(state);
#pragma unroll
  for (unsigned& word : words.word) word = shuffle(word);
  return std::bit_cast<State>(words);
}

/// Combines the states of the whole block, whose size is a multiple of 32; every thread gets the result.
template <class State, class Combine>
__device__ State reduce_block(State state, Combine combine);

/// `Threads` adjacent threads that work on one row: one, part of a warp, a warp, or (above 32) a whole block.
template <int Threads>
struct Group {
  static_assert((Threads <= 32 && 32 % Threads == 0) || Threads % 32 == 0);
  static constexpr int lanes = Threads < 32 ? Threads : 32;

  static __device__ int rank() { return static_cast<int>(threadIdx.x % Threads); }

  /// Every thread of the group gets the same bits.
  template <class State, class Combine>
  static __device__ State reduce(State state, Combine combine) {
    if constexpr (Threads > 32) {
      return reduce_block(state, combine);
    } else {
      // Only the group's own lanes take part: its neighbours in the warp may be elsewhere.
      const unsigned first = threadIdx.x % 32 / lanes * lanes;
      const unsigned mask = (0xffffffffu >> (32 - lanes)) << first;
#pragma unroll
      for (unsigned distance = lanes / 2; distance > 0; distance /= 2) {
        const State other =
            shuffled(state, [&](unsigned word) { return __shfl_down_sync(mask, word, distance, lanes); });
        state = combine(state, other);
      }
      return shuffled(state, [&](unsigned word) { return __shfl_sync(mask, word, 0, lanes); });
    }
  }
};

template <class State, class Combine>
__device__ State reduce_block(State state, Combine combine) {
  __shared__ alignas(16) unsigned char storage[32 * sizeof(State)];
  State* const of_warp = reinterpret_cast<State*>(storage);
  const unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
  state = Group<32>::reduce(state, combine);
  if (warps == 1) return state;
  __syncthreads();  // the storage may still be read from the previous call
  if (threadIdx.x % 32 == 0) of_warp[warp] = state;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  state = of_warp[lane < warps ? lane : 0];
#pragma unroll
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    const State other =
        shuffled(state, [&](unsigned word) { return __shfl_down_sync(0xffffffffu, word, distance, 32); });
    if (lane + distance < warps) state = combine(state, other);
  }
  return shuffled(state, [](unsigned word) { return __shfl_sync(0xffffffffu, word, 0, 32); });
}

/// Calls `function(std::integral_constant<int, Threads>{})` with the group that suits rows of this length.
template <class Function>
void with_group(std::int64_t rows, std::int64_t length, Function function) {
  if (length <= 16 && rows >= 16384)
    function(std::integral_constant<int, 1>{});
  else if (length <= 64)
    function(std::integral_constant<int, 8>{});
  else if (length <= 256 || (length <= 2048 && rows >= 1024) || (length <= 8192 && rows >= 4096))
    function(std::integral_constant<int, 32>{});
  else
    function(std::integral_constant<int, 512>{});
}

/// The grid for `items` groups; one block works on one item, or on as many as fit 128 threads.
template <int Threads>
Grid group_grid(std::int64_t items) {
  constexpr unsigned threads = Threads > 128 ? Threads : 128;
  return Grid(static_cast<unsigned>(std::min<std::int64_t>(ceil_div(items, threads / Threads), 1 << 30)), threads);
}

// ---- reducers and sources ----
// A Reducer has a plain State, a Value that it takes, and on the device
//   State init() const; void add(State&, Value, std::int64_t index) const;
//   State operator()(State, State) const (combines); void store(std::int64_t output, const State&) const;
// and may have add_pack(State&, Pack<Value, V>) const for V values at once.
// A Source gives packs of values: template <int V> Pack<Value, V> get(std::int64_t offset) const, and on the host says
// whether its pointers are aligned: template <int V> bool packable() const.

template <class T>
struct Elements {
  const T* in;
  template <int V>
  __device__ Pack<Scalar<T>, V> get(std::int64_t offset) const {
    return load<V>(in + offset);
  }
  template <int V>
  bool packable() const {
    return aligned<V>(in);
  }
};

/// The sum, divided by `divisor` for a mean.
template <class T>
struct SumReducer {
  using State = Scalar<T>;
  T* out;
  bool mean;
  State divisor;
  __device__ State init() const { return 0; }
  __device__ void add(State& state, State value, std::int64_t) const { state += value; }
  __device__ State operator()(State a, State b) const { return a + b; }
  __device__ void store(std::int64_t output, State state) const { put(out[output], mean ? state / divisor : state); }
};

// ---- kernels ----

/// How the length of each reduction is cut: `slices` slices of `slice` elements; the last may be shorter.
struct Slices {
  std::int64_t count = 1, slice = 0;
};

template <int Threads, int V, class Reducer, class Source>
__global__ void reduce_rows_kernel(std::int64_t rows, std::int64_t length, Slices slices, Reducer reducer,
                                   Source source, typename Reducer::State* partial) {
  begin_kernel();
  const std::int64_t step = global_threads() / Threads;
  for (std::int64_t item = global_thread() / Threads; item < rows * slices.count; item += step) {
    const std::int64_t row = slices.count == 1 ? item : item / slices.count;
    const std::int64_t begin = (item - row * slices.count) * slices.slice;
    const std::int64_t end = min(begin + slices.slice, length);
    const std::int64_t base = row * length;
    typename Reducer::State state = reducer.init();
    std::int64_t i = begin + Group<Threads>::rank() * V;
#pragma unroll 4
    for (; i + V <= end; i += Threads * V) {
      const auto pack = source.template get<V>(base + i);
      if constexpr (requires { reducer.add_pack(state, pack); }) {
        reducer.add_pack(state, pack);
      } else {
#pragma unroll
        for (int lane = 0; lane < V; ++lane) reducer.add(state, pack.value[lane], i + lane);
      }
    }
    if (V > 1) {
      for (; i < end; ++i) reducer.add(state, source.template get<1>(base + i).value[0], i);
    }
    state = Group<Threads>::reduce(state, reducer);
    if (Group<Threads>::rank() == 0) {
      if (partial != nullptr)
        partial[item] = state;
      else
        reducer.store(row, state);
    }
  }
}

inline constexpr int column_threads = 256;

/// Blocks of blockDim.x adjacent columns by blockDim.y interleaved parts of a slice.
template <class Reducer, class Source>
__global__ void reduce_columns_kernel(kernels::Axis axis, Slices slices, Reducer reducer, Source source,
                                      typename Reducer::State* partial) {
  begin_kernel();
  using State = typename Reducer::State;
  __shared__ alignas(16) unsigned char storage[column_threads * sizeof(State)];
  State* const shared = reinterpret_cast<State*>(storage);
  const std::int64_t tiles = (axis.inner + blockDim.x - 1) / blockDim.x;
  for (std::int64_t item = blockIdx.x; item < axis.outer * tiles * slices.count; item += gridDim.x) {
    const std::int64_t slice = item % slices.count, tile = item / slices.count % tiles;
    const std::int64_t outer = item / slices.count / tiles, column = tile * blockDim.x + threadIdx.x;
    State state = reducer.init();
    if (column < axis.inner) {
      const std::int64_t end = min((slice + 1) * slices.slice, axis.length);
      const std::int64_t base = outer * axis.length * axis.inner + column;
#pragma unroll 4
      for (std::int64_t i = slice * slices.slice + threadIdx.y; i < end; i += blockDim.y)
        reducer.add(state, source.template get<1>(base + i * axis.inner).value[0], i);
    }
    // A tree over y; columns never mix.
    for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
      if (threadIdx.y >= half && threadIdx.y < 2 * half) shared[threadIdx.y * blockDim.x + threadIdx.x] = state;
      __syncthreads();
      if (threadIdx.y < half) state = reducer(state, shared[(threadIdx.y + half) * blockDim.x + threadIdx.x]);
    }
    if (threadIdx.y == 0 && column < axis.inner) {
      const std::int64_t output = outer * axis.inner + column;
      if (partial != nullptr)
        partial[output * slices.count + slice] = state;
      else
        reducer.store(output, state);
    }
    __syncthreads();
  }
}

/// A thread reduces V adjacent columns: `packs` of them are outputs.
template <int V, class Reducer, class Source>
__global__ void __launch_bounds__(column_threads)
    reduce_whole_columns_kernel(std::uint32_t packs, Divisor<std::uint32_t> packs_of_row, std::int64_t length,
                                Reducer reducer, Source source) {
  begin_kernel();
  const auto pack = static_cast<std::uint32_t>(global_thread());
  if (pack >= packs) return;
  std::uint32_t outer = pack;
  const std::int64_t column = packs_of_row.split(outer), row = packs_of_row.value();
  typename Reducer::State states[V];
#pragma unroll
  for (auto& state : states) state = reducer.init();
#pragma unroll 4
  for (std::int64_t i = 0; i < length; ++i) {
    const auto values = source.template get<V>(((outer * length + i) * row + column) * V);
#pragma unroll
    for (int lane = 0; lane < V; ++lane) reducer.add(states[lane], values.value[lane], i);
  }
#pragma unroll
  for (int lane = 0; lane < V; ++lane) reducer.store(std::int64_t{pack} * V + lane, states[lane]);
}

/// Whether there are outputs enough; if so, it is done.
template <int V, class Reducer, class Source>
bool reduce_whole_columns(Context& context, const kernels::Axis& axis, const Reducer& reducer, const Source& source) {
  constexpr std::int64_t least = 16384, most = std::int64_t{1} << 30;
  constexpr std::int64_t longest = 256;  // longer sums have more digits in parts
  const std::int64_t packs = axis.outer * axis.inner / V;
  if (axis.length > longest || axis.inner % V != 0 || packs < least || packs > most || !source.template packable<V>())
    return false;
  launch(context, Grid(static_cast<unsigned>(ceil_div(packs, column_threads)), column_threads),
         reduce_whole_columns_kernel<V, Reducer, Source>, static_cast<std::uint32_t>(packs),
         Divisor<std::uint32_t>(axis.inner / V), axis.length, reducer, source);
  return true;
}

/// The second kernel of a split reduction: a warp or a block per output.
template <int Threads, class Reducer>
__global__ void combine_kernel(std::int64_t outputs, std::int64_t slices, Reducer reducer,
                               const typename Reducer::State* partial) {
  begin_kernel();
  using Team = Group<Threads>;
  const std::int64_t step = global_threads() / Threads;
  for (std::int64_t output = global_thread() / Threads; output < outputs; output += step) {
    typename Reducer::State state = reducer.init();
#pragma unroll 4
    for (std::int64_t i = Team::rank(); i < slices; i += Threads) state = reducer(state, partial[output * slices + i]);
    state = Team::reduce(state, reducer);
    if (Team::rank() == 0) reducer.store(output, state);
  }
}

template <class Reducer>
void combine(Context& context, std::int64_t outputs, std::int64_t slices, const Reducer& reducer,
             const typename Reducer::State* partial) {
  if (slices > 128)
    launch(context, group_grid<256>(outputs), combine_kernel<256, Reducer>, outputs, slices, reducer, partial);
  else
    launch(context, group_grid<32>(outputs), combine_kernel<32, Reducer>, outputs, slices, reducer, partial);
}

/// Cuts the length if the outputs alone would leave most of the card idle. `blocks` is what they would start.
inline Slices slices_for(std::int64_t blocks, std::int64_t length, std::int64_t least) {
  constexpr std::int64_t wanted_blocks = 1024, most = 1024, multiple = 16;
  std::int64_t count = std::min({wanted_blocks / std::max<std::int64_t>(blocks, 1), length / least, most});
  count = std::max<std::int64_t>(count, 1);
  const std::int64_t slice = ceil_div(ceil_div(length, count), multiple) * multiple;
  return {std::max<std::int64_t>(ceil_div(length, slice), 1), slice};
}

/// Reduces [outer, length, inner] along length. An empty length stores the initial state.
template <class Value, class Reducer, class Source>
void reduce(Context& context, const kernels::Axis& axis, const Reducer& reducer, const Source& source) {
  using State = typename Reducer::State;
  constexpr int V = pack_size<Value>;
  const std::int64_t outputs = axis.outer * axis.inner;
  if (outputs == 0) return;
  if (axis.length == 0) return combine<Reducer>(context, outputs, 0, reducer, nullptr);

  if (axis.inner > 1) {
    constexpr int of_thread = pack_of_registers<Value>;
    if (reduce_whole_columns<of_thread>(context, axis, reducer, source) ||
        reduce_whole_columns<1>(context, axis, reducer, source))
      return;
    unsigned x = 4;
    while (x < 32 && x < axis.inner) x *= 2;
    const std::int64_t tiles = axis.outer * ceil_div(axis.inner, x);
    // A second kernel costs about as much as 64 iterations of a block.
    const std::int64_t turn = column_threads / x;
    const Slices slices =
        tiles >= 128 || axis.length <= 64 * turn ? Slices{1, axis.length} : slices_for(tiles, axis.length, 16 * turn);
    Scratch scratch(context, slices.count == 1 ? 0 : static_cast<std::size_t>(outputs * slices.count) * sizeof(State));
    State* const partial = slices.count == 1 ? nullptr : scratch.as<State>();
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles * slices.count, 1 << 30));
    launch(context, Grid(blocks, dim3(x, column_threads / x)), reduce_columns_kernel<Reducer, Source>, axis, slices,
           reducer, source, partial);
    if (partial != nullptr) combine(context, outputs, slices.count, reducer, partial);
    return;
  }

  const bool packable = source.template packable<V>() && (axis.outer == 1 || axis.length % V == 0);
  with_group(axis.outer, axis.length, [&](auto threads) {
    constexpr int Threads = decltype(threads)::value;
    // One block alone reads about 16 K elements in the time of a second kernel.
    const Slices slices =
        axis.outer >= 128 || axis.length <= 16384 ? Slices{1, axis.length} : slices_for(axis.outer, axis.length, 4096);
    Scratch scratch(context, slices.count == 1 ? 0 : static_cast<std::size_t>(outputs * slices.count) * sizeof(State));
    State* const partial = slices.count == 1 ? nullptr : scratch.as<State>();
    launch(context, group_grid<Threads>(axis.outer * slices.count),
           packable ? reduce_rows_kernel<Threads, V, Reducer, Source> : reduce_rows_kernel<Threads, 1, Reducer, Source>,
           axis.outer, axis.length, slices, reducer, source, partial);
    if (partial != nullptr) combine(context, outputs, slices.count, reducer, partial);
  });
}

}  // namespace tern::cuda
