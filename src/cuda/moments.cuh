#pragma once

#include "cuda/reduce.cuh"

namespace tern::cuda {

/// Count, mean and sum of squared deviations.
template <class T>
struct Moments {
  T count, mean, squares;
};

/// A share of a mean: in float with less care than a division takes, which would be most of a reduction's time.
__device__ __forceinline__ double share_of(double a, double b) { return a / b; }
__device__ __forceinline__ float share_of(float a, float b) { return __fdividef(a, b); }

/// Accumulates them without cancellation (Welford; Chan, Golub and LeVeque).
template <class T>
struct MomentsReducer {
  using State = Moments<T>;
  __device__ State init() const { return {0, 0, 0}; }
  __device__ void add(State& state, T value) const {
    const T delta = value - state.mean;
    state.count += 1;
    state.mean += share_of(delta, state.count);
    state.squares += delta * (value - state.mean);
  }
  /// One division for all of them.
  template <int V>
  __device__ void add_pack(State& state, const Pack<T, V>& pack) const {
    if constexpr (V == 1) {
      add(state, pack.value[0]);
    } else {
      T mean = 0, squares = 0;
#pragma unroll
      for (int lane = 0; lane < V; ++lane) mean += pack.value[lane] / V;
#pragma unroll
      for (int lane = 0; lane < V; ++lane) squares += (pack.value[lane] - mean) * (pack.value[lane] - mean);
      state = (*this)(state, {T(V), mean, squares});
    }
  }
  /// The first `count` of a pack. Equal values have exactly their mean.
  template <int V>
  __device__ void add_first(State& state, const Pack<T, V>& pack, int count) const {
    const T first = pack.value[0], part = T(1) / static_cast<T>(count);
    T sum = 0, squares = 0;
#pragma unroll
    for (int lane = 1; lane < V; ++lane)
      if (lane < count) sum += pack.value[lane] - first;
    const T mean = first + sum * part;
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      if (lane < count) squares += (pack.value[lane] - mean) * (pack.value[lane] - mean);
    state = (*this)(state, {static_cast<T>(count), mean, squares});
  }
  __device__ State operator()(const State& a, const State& b) const {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const T count = a.count + b.count, delta = b.mean - a.mean, part = share_of(b.count, count);
    return {count, a.mean + delta * part, a.squares + b.squares + delta * delta * (a.count * part)};
  }
};

}  // namespace tern::cuda
