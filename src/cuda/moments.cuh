#pragma once

#include "cuda/reduce.cuh"

namespace tern::cuda {

/// Count, mean and sum of squared deviations.
template <class T>
struct Moments {
  T count, mean, squares;
};

/// Accumulates them without cancellation (Welford; Chan, Golub and LeVeque).
template <class T>
struct MomentsReducer {
  using State = Moments<T>;
  __device__ State init() const { return {0, 0, 0}; }
  __device__ void add(State& state, T value) const {
    const T delta = value - state.mean;
    state.count += 1;
    state.mean += delta / state.count;
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
  __device__ State operator()(const State& a, const State& b) const {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const T count = a.count + b.count, delta = b.mean - a.mean, part = b.count / count;
    return {count, a.mean + delta * part, a.squares + b.squares + delta * delta * (a.count * part)};
  }
};

}  // namespace tern::cuda
