#pragma once
// Elementwise operators with two inputs and a selection, over broadcasts: for floating numbers and integers.

#include "cuda/elementwise.cuh"

namespace tern::cuda {

using kernels::Broadcast;

template <class F, class T, class Out>
struct BinaryMap {
  Out* out;
  Operand<T> a, b;
  F f;
  template <int V, class At>
  __device__ void run(std::int64_t position, const At& at) const {
    store<V>(out + position, apply<V, Out>(f, at.template get<V, 0>(a), at.template get<V, 1>(b)));
  }
};

template <class T>
struct WhereMap {
  T* out;
  Operand<T> a, b;
  Operand<bool> condition;
  template <int V, class At>
  __device__ void run(std::int64_t position, const At& at) const {
    const auto first = at.template get<V, 0>(a), second = at.template get<V, 1>(b);
    const auto chosen = at.template get<V, 2>(condition);
    Pack<Scalar<T>, V> result;
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      result.value[lane] = chosen.value[lane] ? first.value[lane] : second.value[lane];
    store<V>(out + position, result);
  }
};

template <class T>
Operand<T> operand(const T* pointer, const Broadcast& sizes, int input) {
  return {pointer, sizes.rank > 0 && sizes.stride[input][sizes.rank - 1] == 0};
}

template <class F, class T, class Out>
void binary(Context& context, Out* out, const T* a, const T* b, const Broadcast& sizes, F f) {
  constexpr int V = pack_size<T>;
  broadcast<V>(context, sizes, 2, aligned<V>(out) && aligned<V>(a) && aligned<V>(b),
               BinaryMap<F, T, Out>{out, operand(a, sizes, 0), operand(b, sizes, 1), f});
}
template <class F, class T, class Out>
void binary(Context& context, Out* out, const T* a, const T* b, const Broadcast& sizes) {
  binary(context, out, a, b, sizes, F{});
}

template <class T>
void where(Context& context, T* out, const T* a, const T* b, const bool* condition, const Broadcast& sizes) {
  constexpr int V = pack_size<T>;
  const bool packable = aligned<V>(out) && aligned<V>(a) && aligned<V>(b) && aligned<V>(condition);
  broadcast<V>(context, sizes, 3, packable,
               WhereMap<T>{out, operand(a, sizes, 0), operand(b, sizes, 1), operand(condition, sizes, 2)});
}

}  // namespace tern::cuda
