#include "cuda/cuda.hpp"
#include "cuda/moments.cuh"
#include "tern/kernels/reduction.hpp"

namespace tern::cuda {
namespace {

using kernels::Axis;

/// In double for float32 too: a mean far from 0 leaves no digits for the deviations.
template <class T>
struct VarReducer : MomentsReducer<double> {
  T* out;
  double divisor;
  VarReducer(T* variances, std::int64_t divide_by) : out(variances), divisor(static_cast<double>(divide_by)) {}
  __device__ void add(Moments<double>& state, Scalar<T> value, std::int64_t) const {
    MomentsReducer<double>::add(state, static_cast<double>(value));
  }
  template <int V>
  __device__ void add_pack(Moments<double>& state, const Pack<Scalar<T>, V>& pack) const {
    Pack<double, V> wide;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) wide.value[lane] = static_cast<double>(pack.value[lane]);
    MomentsReducer<double>::add_pack(state, wide);
  }
  __device__ void store(std::int64_t output, const Moments<double>& state) const {
    using S = Scalar<T>;
    put(out[output], divisor > 0 ? static_cast<S>(state.squares / divisor) : std::numeric_limits<S>::quiet_NaN());
  }
};

/// The rule decides between any two elements, so the order of combining does not matter.
template <class T>
struct ExtremeReducer {
  using S = Scalar<T>;
  struct State {
    S value;
    std::int64_t index;  ///< -1: nothing yet
  };
  T* out;
  std::int64_t* indices;
  bool largest;
  __device__ State init() const { return {S(0), -1}; }
  __device__ State operator()(const State& a, const State& b) const {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    const bool first = a.index < b.index;
    if (isnan(a.value) || isnan(b.value)) return isnan(a.value) && (first || !isnan(b.value)) ? a : b;
    if (a.value == b.value) return first ? a : b;
    return (a.value > b.value) == largest ? a : b;
  }
  /// The same for increasing indices: only a better value, or the first NaN, replaces.
  __device__ void add(State& state, S value, std::int64_t index) const {
    const bool better = largest ? value > state.value : value < state.value;
    if (better || state.index < 0 || (isnan(value) && !isnan(state.value))) state = {value, index};
  }
  __device__ void store(std::int64_t output, const State& state) const {
    if (out != nullptr) put(out[output], state.value);
    if (indices != nullptr) indices[output] = state.index;
  }
};

template <class T, class Index>
__global__ void var_backward_kernel(Index n, Divisor<Index> inner, Divisor<Index> length, Scalar<T> divisor, T* grad_in,
                                    const T* grad_out, const T* in, const Scalar<T>* mean) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    Index outer = i;
    const Index column = inner.split(outer);
    const Index output = length.quotient(outer) * inner.value() + column;
    put(grad_in[i], widened(grad_out[output]) * (2 * (widened(in[i]) - mean[output]) / divisor));
  }
}

template <class T, class Index>
__global__ void extreme_backward_kernel(Index n, Divisor<Index> inner, Divisor<Index> length, T* grad_in,
                                        const T* grad_out, const std::int64_t* index) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    Index outer = i;
    const Index column = inner.split(outer);
    const Index at = length.split(outer);
    const Index output = outer * inner.value() + column;
    grad_in[i] = index[output] == static_cast<std::int64_t>(at) ? grad_out[output] : T{};
  }
}

// ---- the slots ----

template <class T>
void sum(Context& context, T* out, const T* in, const Axis& axis) {
  reduce<T>(context, axis, SumReducer<T>{out, false, Scalar<T>(1)}, Elements<T>{in});
}

template <class T>
void mean(Context& context, T* out, const T* in, const Axis& axis) {
  reduce<T>(context, axis, SumReducer<T>{out, true, static_cast<Scalar<T>>(axis.length)}, Elements<T>{in});
}

template <class T>
void var(Context& context, T* out, const T* in, const Axis& axis, std::int64_t correction) {
  reduce<T>(context, axis, VarReducer<T>(out, axis.length - correction), Elements<T>{in});
}

template <class T>
void var_backward(Context& context, T* grad_in, const T* grad_out, const T* in, const Axis& axis,
                  std::int64_t correction) {
  const std::int64_t n = axis.outer * axis.length * axis.inner;
  if (n == 0) return;
  using S = Scalar<T>;
  const S divisor =
      axis.length > correction ? static_cast<S>(axis.length - correction) : std::numeric_limits<S>::quiet_NaN();
  Scratch means(context, static_cast<std::size_t>(axis.outer * axis.inner) * sizeof(S));
  reduce<T>(context, axis, SumReducer<S>{means.as<S>(), true, static_cast<S>(axis.length)}, Elements<T>{in});
  with_index(n, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, Grid(blocks_for(n), 256), var_backward_kernel<T, Index>, static_cast<Index>(n),
           Divisor<Index>(axis.inner), Divisor<Index>(axis.length), divisor, grad_in, grad_out, in, means.as<S>());
  });
}

template <class T>
void max(Context& context, T* out, std::int64_t* index, const T* in, const Axis& axis) {
  reduce<T>(context, axis, ExtremeReducer<T>{out, index, true}, Elements<T>{in});
}

template <class T>
void min(Context& context, T* out, std::int64_t* index, const T* in, const Axis& axis) {
  reduce<T>(context, axis, ExtremeReducer<T>{out, index, false}, Elements<T>{in});
}

template <class T>
void extreme_backward(Context& context, T* grad_in, const T* grad_out, const std::int64_t* index, const Axis& axis) {
  const std::int64_t n = axis.outer * axis.length * axis.inner;
  if (n == 0) return;
  with_index(n, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, Grid(blocks_for(n), 256), extreme_backward_kernel<T, Index>, static_cast<Index>(n),
           Divisor<Index>(axis.inner), Divisor<Index>(axis.length), grad_in, grad_out, index);
  });
}

}  // namespace

template <class T>
kernels::Reduction<T> reduction() {
  return {.sum = sum<T>,
          .mean = mean<T>,
          .var = var<T>,
          .var_backward = var_backward<T>,
          .max = max<T>,
          .min = min<T>,
          .extreme_backward = extreme_backward<T>};
}
template kernels::Reduction<float> reduction<float>();
template kernels::Reduction<double> reduction<double>();
template kernels::Reduction<BFloat16> reduction<BFloat16>();
template kernels::Reduction<Float16> reduction<Float16>();

}  // namespace tern::cuda
