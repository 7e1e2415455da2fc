#pragma once
// Rows held in the registers of part of a warp, a warp or a block, so that they are read once.

#include <algorithm>

#include "cuda/reduce.cuh"

namespace tern::cuda {

/// `Packs` packs per thread.
template <int Packs, int V, class T>
struct Held {
  Pack<T, V> pack[Packs];
};

/// Calls use(k, i) for this thread's packs of a row: the k-th begins at element i.
template <int Threads, int Packs, int V, class Use>
__device__ __forceinline__ void each_pack(int length, Use use) {
#pragma unroll
  for (int k = 0; k < Packs; ++k)
    if (const int i = (Group<Threads>::rank() + k * Threads) * V; i < length) use(k, i);
}

template <int Threads, int Packs, int V, class T>
__device__ __forceinline__ Held<Packs, V, Scalar<T>> held_row(const T* from, int length) {
  Held<Packs, V, Scalar<T>> held;
  each_pack<Threads, Packs, V>(length, [&](int k, int i) { held.pack[k] = load<V>(from + i); });
  return held;
}

/// The same with `filler` behind the end of the row: work on all values needs no bounds.
template <int Threads, int Packs, int V, class T>
__device__ __forceinline__ Held<Packs, V, Scalar<T>> filled_row(const T* from, int length, Scalar<T> filler) {
  Held<Packs, V, Scalar<T>> held;
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    const int i = (Group<Threads>::rank() + k * Threads) * V;
#pragma unroll
    for (Scalar<T>& value : held.pack[k].value) value = filler;
    if (i < length) held.pack[k] = load<V>(from + i);
  }
  return held;
}

/// Calls use(value) for all values, fillers included.
template <int Packs, int V, class T, class Use>
__device__ __forceinline__ void each_value(Held<Packs, V, T>& held, Use use) {
#pragma unroll
  for (int k = 0; k < Packs; ++k)
#pragma unroll
    for (T& value : held.pack[k].value) use(value);
}

template <int Threads, int Packs, int V, class T, class U>
__device__ __forceinline__ void store_row(T* to, int length, const Held<Packs, V, U>& held) {
  each_pack<Threads, Packs, V>(length, [&](int k, int i) { store<V>(to + i, held.pack[k]); });
}

/// Combines the states of a group, all of whose warps' lanes call it; every thread gets the same bits. `combine`
/// commutes.
template <int Threads, class State, class Combine>
__device__ __forceinline__ State reduce_whole(State state, Combine combine) {
  if constexpr (Threads > 32) {
    return reduce_block(state, combine);
  } else {
#pragma unroll
    for (int distance = Threads / 2; distance > 0; distance /= 2)
      state = combine(state,
                      shuffled(state, [&](unsigned word) { return __shfl_xor_sync(0xffffffffu, word, distance, 32); }));
    return state;
  }
}

template <int Threads>
inline constexpr int block_threads = Threads > 128 ? Threads : 128;

/// Rows for the blocks below `blocks`.
template <int Threads, class Work>
__device__ __forceinline__ void for_rows(std::int64_t rows, unsigned blocks, Work work) {
  const std::int64_t step = std::int64_t{blocks} * (blockDim.x / Threads);
  for (std::int64_t row = std::int64_t{blockIdx.x} * (blockDim.x / Threads) + threadIdx.x / Threads; row < rows;
       row += step)
    work(row);
}

/// The same for work(row, exists) by all lanes of a warp: the last rows of one may not exist.
template <int Threads, class Work>
__device__ __forceinline__ void for_whole_rows(std::int64_t rows, Work work) {
  const std::int64_t groups = blockDim.x / Threads;
  constexpr int of_warp = Threads < 32 ? 32 / Threads : 1;
  const int group = static_cast<int>(threadIdx.x) / Threads, of_first = group / of_warp * of_warp;
  for (std::int64_t first = blockIdx.x * groups; first + of_first < rows; first += gridDim.x * groups)
    work(first + group, first + group < rows);
}

/// How many threads hold a row, and how many packs of V elements each of them holds.
template <int Threads, int Packs, int V>
struct HeldRow {
  static constexpr int threads = Threads, packs = Packs, pack = V;
};

constexpr std::int64_t many_rows = 2048;  // enough to fill the card with rows of few threads, which synchronise with
                                          // few others

/// Calls function(HeldRow<Threads, Packs, V>{}) with the shape for rows of `length` elements, of which a thread holds
/// at most `Most`; false if there is none.
template <int V, int Most, class Function>
bool with_held_row(std::int64_t rows, std::int64_t length, Function function) {
  const std::int64_t packs = length / V;
  const auto fits = [&]<int Threads, int Packs>(HeldRow<Threads, Packs, V> shape) {
    if constexpr (Packs * V <= Most || Threads > 32) {
      if (packs > Threads * Packs) return false;
      function(shape);
      return true;
    }
    return false;
  };
  const bool many = rows >= many_rows;
  if (fits(HeldRow<8, 2, V>{}) || fits(HeldRow<16, 2, V>{})) return true;
  if constexpr (V == 1) {  // a window of 7 x 7, with fewer exchanges
    if (fits(HeldRow<8, 7, V>{})) return true;
  }
  if (fits(HeldRow<16, 4, V>{})) return true;
  if constexpr (V == 1) {  // of short rows many must be in flight
    if (fits(HeldRow<16, 5, V>{}) || fits(HeldRow<16, 6, V>{})) return true;
  }
  if (packs * V <= 640 || many) {
    if (fits(HeldRow<32, 3, V>{}) || fits(HeldRow<32, 4, V>{}) || fits(HeldRow<32, 8, V>{})) return true;
    if constexpr (V == 1) {
      if (fits(HeldRow<32, 12, V>{}) || fits(HeldRow<32, 20, V>{}) || fits(HeldRow<32, 32, V>{}) ||
          fits(HeldRow<32, 48, V>{}))
        return true;
    }
    if (fits(HeldRow<32, 64 / V, V>{})) return true;
  }
  return fits(HeldRow<256, 4 / V, V>{}) || fits(HeldRow<256, 8 / V, V>{}) || fits(HeldRow<512, 16 / V, V>{});
}

}  // namespace tern::cuda
