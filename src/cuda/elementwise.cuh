#pragma once
// Elementwise work: 16-byte loads if the pointers allow it, otherwise element by element.

#include <algorithm>
#include <type_traits>

#include "cuda/elements.cuh"
#include "cuda/support.cuh"
#include "tern/kernels/activation.hpp"
#include "tern/kernels/arithmetic.hpp"

namespace tern::cuda {

/// V adjacent elements, moved in one access (two for more than 16 bytes).
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T value[V];
};

/// How many elements of the widest of these types fit 16 bytes.
template <class... T>
inline constexpr int pack_size = 16 / static_cast<int>(std::max({sizeof(T)...}));
/// The same for kernels that hold many packs: for 16-bit elements as many registers as for float32.
template <class T>
inline constexpr int pack_of_registers = pack_size<Scalar<T>>;

/// Elements as they are computed with.
template <int V, class T>
__device__ Pack<Scalar<T>, V> load(const T* from) {
  const auto& raw = *reinterpret_cast<const Pack<T, V>*>(from);
  if constexpr (is_half<T>) {
    const Pack<T, V> read = raw;
    Pack<Scalar<T>, V> pack;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) pack.value[lane] = widened(read.value[lane]);
    return pack;
  } else {
    return raw;
  }
}

/// Values that are elements already are stored as they are; others are rounded.
template <int V, class T, class U>
__device__ void store(T* to, const Pack<U, V>& pack) {
  if constexpr (std::is_same_v<T, U>) {
    *reinterpret_cast<Pack<T, V>*>(to) = pack;
  } else {
    Pack<T, V> rounded;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) put(rounded.value[lane], pack.value[lane]);
    *reinterpret_cast<Pack<T, V>*>(to) = rounded;
  }
}

/// Contracts promise element alignment only, so packs are used after this check.
template <int V, class T>
bool aligned(const T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignof(Pack<T, V>) == 0;
}

/// Division by a number known at launch. 32 bits: numbers below 2^31, as one multiplication and one shift.
template <class Index>
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(std::int64_t divisor) : divisor_(static_cast<Index>(divisor)) {
    if constexpr (sizeof(Index) == 4) {
      while ((std::uint64_t{1} << shift_) < divisor_) ++shift_;
      multiplier_ = static_cast<Index>(((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift_) - divisor_)) /
                                           std::max<std::uint64_t>(divisor_, 1) +
                                       1);
    }
  }
  __device__ __forceinline__ Index quotient(Index number) const {
    if constexpr (sizeof(Index) == 4)
      return (__umulhi(number, multiplier_) + number) >> shift_;
    else
      return number / divisor_;
  }
  __device__ Index value() const { return divisor_; }
  /// Replaces `number` by its quotient and returns the remainder.
  __device__ __forceinline__ Index split(Index& number) const {
    const Index before = number;
    number = quotient(number);
    return before - number * divisor_;
  }
  /// For a nonnegative number.
  __device__ __forceinline__ void split(int number, int& quotient_of, int& remainder) const {
    auto rest = static_cast<Index>(number);
    remainder = static_cast<int>(split(rest));
    quotient_of = static_cast<int>(rest);
  }

 private:
  Index divisor_ = 1, multiplier_ = 1, shift_ = 0;
};

/// Calls `function(std::uint32_t{})` if every index up to `count` fits the fast division, else with 64 bits.
template <class Function>
void with_index(std::int64_t count, Function function) {
  if (count < (std::int64_t{1} << 31))
    function(std::uint32_t{});
  else
    function(std::uint64_t{});
}

/// Threads per block of an elementwise kernel: smaller blocks spread small work over more multiprocessors.
inline unsigned threads_for(std::int64_t items) { return items <= card().multiprocessors * 512ll ? 64 : 256; }

/// A thread for each item of an elementwise kernel, up to 2^31.
inline Grid item_grid(std::int64_t items) {
  const unsigned threads = threads_for(items);
  return Grid(static_cast<unsigned>(std::min<std::int64_t>(ceil_div(items, threads), (1ll << 31) / threads)), threads);
}

__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t global_threads() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

/// What f returns for an element of Out: the element itself, or what is rounded to it.
template <class Out, class F, class... In>
using ResultOf = std::conditional_t<std::is_same_v<std::invoke_result_t<F, In...>, Out>, Out, Scalar<Out>>;

template <int V, class Out, class F, class... In>
__device__ Pack<ResultOf<Out, F, In...>, V> apply(const F& f, const Pack<In, V>&... in) {
  Pack<ResultOf<Out, F, In...>, V> result;
#pragma unroll
  for (int lane = 0; lane < V; ++lane) result.value[lane] = f(in.value[lane]...);
  return result;
}

template <int V, class F, class Out, class... In>
__global__ void map_kernel(std::int64_t n, F f, Out* out, const In*... in) {
  begin_kernel();
  for (std::int64_t i = global_thread() * V; i < n; i += global_threads() * V) {
    if (i + V <= n) {
      store<V>(out + i, apply<V, Out>(f, load<V>(in + i)...));
    } else {
      for (std::int64_t rest = i; rest < n; ++rest) store<1>(out + rest, apply<1, Out>(f, load<1>(in + rest)...));
    }
  }
}

/// out[i] = f(in[i]...). `out` may be any of the inputs.
template <int V, class F, class Out, class... In>
void map_packed(const Context& context, std::int64_t n, F f, Out* out, const In*... in) {
  if (n == 0) return;
  const bool packed = aligned<V>(out) && (aligned<V>(in) && ...);
  const std::int64_t items = packed ? (n + V - 1) / V : n;
  launch(context, item_grid(items), packed ? map_kernel<V, F, Out, In...> : map_kernel<1, F, Out, In...>, n, f, out,
         in...);
}

template <class F, class Out, class... In>
void map(const Context& context, std::int64_t n, F f, Out* out, const In*... in) {
  map_packed<pack_size<Out, In...>>(context, n, f, out, in...);
}

/// Its map converts between types of elements.
struct Same {
  template <class T>
  __device__ T operator()(T value) const {
    return value;
  }
};

/// A Broadcast in packs: the innermost dimension counts packs, and each input either walks it or repeats one element.
template <class Index>
struct BroadcastLayout {
  int rank = 0;
  Divisor<Index> size[kernels::max_rank];
  std::int64_t stride[3][kernels::max_rank] = {};
  bool dense[3] = {};  ///< whether an input's elements lie as those of the output

  /// use(d, index) for the indices at a position, the innermost first.
  template <class Use>
  __device__ void each_index(Index position, Use use) const {
#pragma unroll
    for (int from_last = 0; from_last < kernels::max_rank; ++from_last) {
      const int d = rank - 1 - from_last;
      if (d < 0) break;
      use(d, d == 0 ? position : size[d].split(position));
    }
  }
};

/// An input of a broadcast: its elements at `offset`, or one of them V times.
template <class T>
struct Operand {
  const T* pointer;
  bool repeat;
  template <int V>
  __device__ Pack<Scalar<T>, V> get(std::int64_t offset) const {
    if (V > 1 && repeat) {
      const Scalar<T> value = widened(pointer[offset]);
      Pack<Scalar<T>, V> pack;
#pragma unroll
      for (int lane = 0; lane < V; ++lane) pack.value[lane] = value;
      return pack;
    }
    return load<V>(pointer + offset);
  }
};

/// Where the inputs of a pack lie that does not leave the innermost dimension.
struct PackAt {
  std::int64_t offset[3] = {};
  template <int V, int input, class T>
  __device__ Pack<Scalar<T>, V> get(const Operand<T>& operand) const {
    return operand.template get<V>(offset[input]);
  }
};

/// Where those of a pack lie that may.
template <class Index>
struct FlatAt {
  const BroadcastLayout<Index>& layout;
  Index position;
  template <int V, int input, class T>
  __device__ Pack<Scalar<T>, V> get(const Operand<T>& operand) const {
    if (layout.dense[input]) return load<V>(operand.pointer + position);
    Pack<Scalar<T>, V> pack;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      std::int64_t offset = 0;
      layout.each_index(position + lane, [&](int d, Index at) { offset += at * layout.stride[input][d]; });
      pack.value[lane] = widened(operand.pointer[offset]);
    }
    return pack;
  }
};

template <int V, class Index, class F>
__global__ void broadcast_kernel(Index packs, const __grid_constant__ BroadcastLayout<Index> layout, F f) {
  begin_kernel();
  const Index step = static_cast<Index>(global_threads());
  for (Index pack = static_cast<Index>(global_thread()); pack < packs; pack += step) {
    PackAt at;
    layout.each_index(pack, [&](int d, Index index) {
#pragma unroll
      for (int input = 0; input < 3; ++input) at.offset[input] += index * layout.stride[input][d];
    });
    f.template run<V>(static_cast<std::int64_t>(pack) * V, at);
  }
}

/// For innermost dimensions of any size: packs of the output, and of each input that lies as it does.
template <int V, class Index, class F>
__global__ void flat_broadcast_kernel(Index count, const __grid_constant__ BroadcastLayout<Index> layout, F f) {
  begin_kernel();
  const Index step = static_cast<Index>(global_threads()) * V;
  for (Index i = static_cast<Index>(global_thread()) * V; i < count; i += step) {
    if (i + V <= count) {
      f.template run<V>(i, FlatAt<Index>{layout, i});
    } else {
      for (; i < count; ++i) f.template run<1>(i, FlatAt<Index>{layout, i});
    }
  }
}

/// Whether packs of V stay in the innermost dimension, and inputs walk it in packs or repeat an element.
template <int V>
bool in_packs(const kernels::Broadcast& sizes, int inputs) {
  const int last = sizes.rank - 1;
  bool whole = sizes.rank > 1 && sizes.size[last] % V == 0;
  for (int input = 0; whole && input < inputs; ++input) {
    whole = sizes.stride[input][last] == 0 || sizes.stride[input][last] == 1;
    for (int d = 0; d < last; ++d) whole = whole && (sizes.stride[input][last] == 0 || sizes.stride[input][d] % V == 0);
  }
  return whole;
}

template <class Index>
BroadcastLayout<Index> layout_of(const kernels::Broadcast& sizes, int inputs, std::int64_t pack) {
  BroadcastLayout<Index> layout;
  layout.rank = sizes.rank;
  for (int input = 0; input < inputs; ++input) layout.dense[input] = true;
  std::int64_t dense = 1;
  for (int d = sizes.rank - 1; d >= 0; --d) {
    const std::int64_t per_index = d == sizes.rank - 1 ? pack : 1;
    layout.size[d] = Divisor<Index>(sizes.size[d] / per_index);
    for (int input = 0; input < inputs; ++input) {
      layout.stride[input][d] = sizes.stride[input][d] * per_index;
      layout.dense[input] = layout.dense[input] && sizes.stride[input][d] == dense;
    }
    dense *= sizes.size[d];
  }
  return layout;
}

/// Runs `f.run<V>(position, at)` over a broadcast; `packable` states that the pointers are aligned for V.
template <int V, class F>
void broadcast(Context& context, const kernels::Broadcast& sizes, int inputs, bool packable, F f) {
  if (sizes.count == 0) return;
  const bool narrow = sizes.count < (std::int64_t{1} << 31) - 4096;  // so that a step behind it has 32 bits
  const bool flat = narrow && packable && sizes.rank > 0 && !in_packs<V>(sizes, inputs);
  const bool packs = narrow && packable && !flat && sizes.rank > 0;
  const std::int64_t items = flat ? ceil_div(sizes.count, V) : packs ? sizes.count / V : sizes.count;
  const Grid grid = item_grid(items);
  if (!narrow)
    return launch(context, grid, broadcast_kernel<1, std::uint64_t, F>, static_cast<std::uint64_t>(items),
                  layout_of<std::uint64_t>(sizes, inputs, 1), f);
  using Index = std::uint32_t;
  if (flat)
    launch(context, grid, flat_broadcast_kernel<V, Index, F>, static_cast<Index>(sizes.count),
           layout_of<Index>(sizes, inputs, 1), f);
  else
    launch(context, grid, packs ? broadcast_kernel<V, Index, F> : broadcast_kernel<1, Index, F>,
           static_cast<Index>(items), layout_of<Index>(sizes, inputs, packs ? V : 1), f);
}

}  // namespace tern::cuda
