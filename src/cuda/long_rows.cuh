#pragma once
// Exponentials of rows that registers do not hold: one pass finds the largest element and the sum, by one or several
// blocks per row.

#include "cuda/reduce.cuh"

namespace tern::cuda {

/// Of a part of a row, for its largest element: the sum of exp(x - largest), the number of elements, and the sum of
/// largest - x if requested.
template <class T>
struct Exponentials {
  T largest, sum, count, below;

  /// What exp() takes off: with -infinity alone, each term is 0 and not NaN.
  __device__ T shift() const { return largest == -infinity<T>() ? T(0) : largest; }
  /// How far `least` is below `most`; equal infinities are 0 apart.
  static __device__ T distance(T most, T least) { return most == least ? T(0) : most - least; }

  template <int N>
  __device__ void add(const T (&values)[N], bool with_below) {
    T most = values[0];
#pragma unroll
    for (int i = 1; i < N; ++i) most = ::fmax(most, values[i]);
    if (most > largest) {
      sum *= ::exp(largest - most);
      if (count > 0) below += count * distance(most, largest);
      largest = most;
    }
    const T taken = shift();
    T more = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) more += ::exp(values[i] - taken);
    sum += more;
    count += N;
    if (!with_below) return;
#pragma unroll
    for (int i = 0; i < N; ++i) below += distance(largest, values[i]);
  }
};

struct JoinExponentials {
  template <class T>
  __device__ Exponentials<T> operator()(const Exponentials<T>& a, const Exponentials<T>& b) const {
    Exponentials<T> both{::fmax(a.largest, b.largest), 0, a.count + b.count, 0};
    for (const Exponentials<T>* part : {&a, &b}) {
      both.sum += part->sum * ::exp(part->largest - both.shift());
      if (part->count > 0) both.below += part->below + part->count * both.distance(both.largest, part->largest);
    }
    return both;
  }
};

template <class T>
__device__ Exponentials<T> no_exponentials() {
  return {-infinity<T>(), 0, 0, 0};
}

/// Those of a block from its threads': exponentials for the largest alone, not in every step of a tree.
template <class T>
__device__ Exponentials<T> joined_block(Exponentials<T> state, bool with_below) {
  const Exponentials<T> own = state;
  state.largest = reduce_block(own.largest, Largest{});
  state.sum = reduce_block(own.sum * ::exp(own.largest - state.shift()), Plus{});
  state.count = state.below = 0;
  if (!with_below) return state;
  state.count = reduce_block(own.count, Plus{});
  const T below = own.count > 0 ? own.below + own.count * state.distance(state.largest, own.largest) : T(0);
  state.below = reduce_block(below, Plus{});
  return state;
}

constexpr int long_row_threads = 512;

/// Rows [count, length], each cut into `parts` parts of `part` elements, the last of which may be shorter.
struct LongRows {
  std::int64_t count, length, parts, part;

  LongRows(std::int64_t rows, std::int64_t row_length) : count(rows), length(row_length) {
    constexpr std::int64_t blocks = 264, least = 4 * long_row_threads;  // of a large card at a time; for a block
    const std::int64_t most = std::clamp<std::int64_t>(blocks / std::max<std::int64_t>(rows, 1), 1, 32);
    part = ceil_div(length, std::clamp<std::int64_t>(length / least, 1, most));
    parts = ceil_div(length, part);
  }
  unsigned blocks() const { return static_cast<unsigned>(std::min<std::int64_t>(count * parts, 1 << 30)); }
  /// work(part, its row, its first element, how many) for this block's parts.
  template <class Work>
  __device__ void each(Work work) const {
    for (std::int64_t item = blockIdx.x; item < count * parts; item += gridDim.x) {
      const std::int64_t row = item / parts, begin = (item - row * parts) * part;
      work(item, row, row * length + begin, min(part, length - begin));
    }
  }
};

/// How many of `count` elements come before the first aligned pack of V.
template <int V, class T>
__device__ std::int64_t until_aligned(const T* from, std::int64_t count) {
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from) / sizeof(T) % V);
  return min(past == 0 ? std::int64_t{0} : V - past, count);
}

/// Calls use(i, std::integral_constant<int, W>{}) for W = V elements at i that are aligned at `from`, and for single
/// ones, by the threads of a block.
template <int V, class T, class Use>
__device__ __forceinline__ void each_piece(const T* from, std::int64_t count, Use use) {
  constexpr std::integral_constant<int, 1> one;
  const std::int64_t rank = threadIdx.x, threads = blockDim.x, head = until_aligned<V>(from, count);
  const std::int64_t packs = (count - head) / V;
  if (rank < head) use(rank, one);
#pragma unroll 4
  for (std::int64_t pack = rank; pack < packs; pack += threads) use(head + pack * V, std::integral_constant<int, V>{});
  for (std::int64_t i = head + packs * V + rank; i < count; i += threads) use(i, one);
}

/// The exponentials of a part, for all threads of the block. Four packs at a time share the search for the largest.
template <class T>
__device__ Exponentials<Scalar<T>> exponentials_of(const T* from, std::int64_t count, bool with_below) {
  using S = Scalar<T>;
  constexpr int V = pack_size<T>, turn = 4;
  auto state = no_exponentials<S>();
  const std::int64_t rank = threadIdx.x, threads = blockDim.x, head = until_aligned<V>(from, count);
  const std::int64_t packs = (count - head) / V;
  const T* const aligned_from = from + head;
  std::int64_t pack = rank;
  for (; pack + (turn - 1) * threads < packs; pack += turn * threads) {
    S values[turn * V];
#pragma unroll
    for (int k = 0; k < turn; ++k) {
      const Pack<S, V> read = load<V>(aligned_from + (pack + k * threads) * V);
#pragma unroll
      for (int lane = 0; lane < V; ++lane) values[k * V + lane] = read.value[lane];
    }
    state.add(values, with_below);
  }
  for (; pack < packs; pack += threads) state.add(load<V>(aligned_from + pack * V).value, with_below);
  const auto one = [&](std::int64_t i) {
    const S value[1] = {widened(from[i])};
    state.add(value, with_below);
  };
  if (rank < head) one(rank);
  for (std::int64_t i = head + packs * V + rank; i < count; i += threads) one(i);
  return joined_block(state, with_below);
}

/// to[i] = f(from[i]), by the threads of a block.
template <class To, class T, class F>
__device__ void map_part(To* to, const T* from, std::int64_t count, F f) {
  using S = Scalar<T>;
  constexpr int V = pack_of_registers<T>;
  const auto write = [&]<int W>(std::int64_t i, std::integral_constant<int, W>) {
    Pack<S, W> pack = load<W>(from + i);
#pragma unroll
    for (S& value : pack.value) value = f(value);
    store<W>(to + i, pack);
  };
  const auto phase = [](const auto* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) / sizeof(*pointer) % V;
  };
  if (phase(to) == phase(from))
    each_piece<V>(from, count, write);
  else
    each_piece<1>(from, count, write);
}

template <class To, class T>
__device__ void write_probabilities(To* to, const T* from, std::int64_t count, const Exponentials<Scalar<T>>& of_row) {
  const Scalar<T> scale = 1 / of_row.sum, largest = of_row.largest;
  map_part(to, from, count, [=](Scalar<T> x) { return ::exp(x - largest) * scale; });
}

/// states: [rows, parts]. Where a row is one part, its probabilities are written too, unless null.
template <class T>
__global__ void __launch_bounds__(long_row_threads)
    exponentials_kernel(LongRows rows, const T* in, Exponentials<Scalar<T>>* states, Scalar<T>* probabilities,
                        bool with_below) {
  begin_kernel();
  rows.each([&](std::int64_t item, std::int64_t, std::int64_t at, std::int64_t count) {
    const auto state = exponentials_of(in + at, count, with_below);
    if (threadIdx.x == 0) states[item] = state;
    if (probabilities != nullptr && rows.parts == 1) write_probabilities(probabilities + at, in + at, count, state);
  });
}

/// Those of a row, from its parts' (32 at most), for all lanes of a warp.
template <class S>
__device__ Exponentials<S> joined(const Exponentials<S>* states, std::int64_t row, std::int64_t parts) {
  const std::int64_t rank = Group<32>::rank();
  return Group<32>::reduce(rank < parts ? states[row * parts + rank] : no_exponentials<S>(), JoinExponentials{});
}

/// The probabilities of rows of several parts.
template <class T>
__global__ void __launch_bounds__(long_row_threads)
    probabilities_kernel(LongRows rows, const T* in, const Exponentials<Scalar<T>>* states, Scalar<T>* probabilities) {
  begin_kernel();
  rows.each([&](std::int64_t, std::int64_t row, std::int64_t at, std::int64_t count) {
    write_probabilities(probabilities + at, in + at, count, joined(states, row, rows.parts));
  });
}

/// Their states [rows, parts], and the probabilities unless null.
template <class T>
void find_exponentials(Context& context, const LongRows& rows, const T* in, Exponentials<Scalar<T>>* states,
                       Scalar<T>* probabilities, bool with_below) {
  const Grid grid(rows.blocks(), long_row_threads);
  launch(context, grid, exponentials_kernel<T>, rows, in, states, probabilities, with_below);
  if (probabilities != nullptr && rows.parts > 1)
    launch(context, grid, probabilities_kernel<T>, rows, in, states, probabilities);
}

}  // namespace tern::cuda
