// Softmax and its gradient. A row of up to 8192 adjacent elements stays in registers: one read, one write.

#include "cuda/held_rows.cuh"
#include "cuda/rows.cuh"
#include "cuda/softmax.cuh"

namespace tern::cuda {
namespace {

using kernels::Axis;

/// The exponentials of a block of a power of two of `Warps`, from those of each.
template <int Warps, class S>
__device__ Exponentials<S> joined_warps(S largest, S sum) {
  __shared__ S of_warp[2][Warps];
  __syncthreads();  // the previous row's may still be read
  if (threadIdx.x % 32 == 0) of_warp[0][threadIdx.x / 32] = largest, of_warp[1][threadIdx.x / 32] = sum;
  __syncthreads();
  const S own = of_warp[0][threadIdx.x % Warps];
  Exponentials<S> whole{reduce_whole<Warps>(own, Largest{}), 0, 0, 0};
  whole.sum = reduce_whole<Warps>(of_warp[1][threadIdx.x % Warps] * ::exp(own - whole.shift()), Plus{});
  return whole;
}

template <class T, bool Logarithm>
struct SoftmaxForward {
  using S = Scalar<T>;
  T* out;
  const T* in;

  template <class Shape>
  __device__ void run_held(std::int64_t row, int length) const {
    constexpr int Threads = Shape::threads, lanes = Threads < 32 ? Threads : 32;
    auto held = filled_row<Threads, Shape::packs, Shape::pack>(in + row * length, length, -infinity<S>());
    S largest = -infinity<S>(), sum = 0;
    each_value(held, [&](S& value) { largest = ::fmax(largest, value); });
    largest = reduce_whole<lanes>(largest, Largest{});
    const S shift = Threads > 32 && largest == -infinity<S>() ? S(0) : largest;  // of a warp, not of the row
    each_value(held, [&](S& value) {
      const S power = ::exp(value - shift);
      sum += power;
      if (!Logarithm) value = power;
    });
    sum = reduce_whole<lanes>(sum, Plus{});
    S factor = 1 / sum;
    if constexpr (Threads > 32) {
      const auto whole = joined_warps<Threads / 32>(largest, sum);
      factor = ::exp(largest - whole.largest) / whole.sum;
      largest = whole.largest, sum = whole.sum;
    }
    const S logarithm = Logarithm ? ::log(sum) : S(0);
    each_value(held, [&](S& value) { value = Logarithm ? value - largest - logarithm : value * factor; });
    store_row<Threads, Shape::packs, Shape::pack>(out + row * length, length, held);
  }

  __device__ void run_long(std::int64_t row, std::int64_t length) const {
    const std::int64_t at = row * length;
    const auto of_row = exponentials_of(in + at, length, false);
    const S logarithm = ::log(of_row.sum), largest = of_row.largest;
    if constexpr (Logarithm)
      map_part(out + at, in + at, length, [=](S x) { return x - largest - logarithm; });
    else
      write_probabilities(out + at, in + at, length, of_row);
  }

  template <class Walk>
  __device__ void run(const Walk& walk) const {
    S largest = -infinity<S>(), sum = 0;
    const auto at = [&](std::int64_t i) { return widened(in[walk.at(i)]); };
    walk.each([&](int, std::int64_t i) { largest = ::fmax(largest, at(i)); });
    largest = walk.reduce(largest, Largest{});
    walk.each([&](int, std::int64_t i) { sum += ::exp(at(i) - largest); });
    sum = walk.reduce(sum, Plus{});
    const S logarithm = Logarithm ? ::log(sum) : S(0);
    walk.each([&](int, std::int64_t i) {
      put(out[walk.at(i)], Logarithm ? at(i) - largest - logarithm : ::exp(at(i) - largest) / sum);
    });
  }
};

template <class T, bool Logarithm>
struct SoftmaxBackward {
  using S = Scalar<T>;
  T* grad_in;
  const T *grad_out, *out;

  static __device__ S term(S gradient, S y) { return Logarithm ? gradient : gradient * y; }
  static __device__ S result(S gradient, S y, S sum) {
    return Logarithm ? gradient - ::exp(y) * sum : y * (gradient - sum);
  }
  template <class Shape>
  __device__ void run_held(std::int64_t row, int length) const {
    constexpr int Threads = Shape::threads, Packs = Shape::packs, V = Shape::pack;
    auto gradient = filled_row<Threads, Packs, V>(grad_out + row * length, length, S(0));
    const auto y = filled_row<Threads, Packs, V>(out + row * length, length, S(0));
    S sum = 0;
#pragma unroll
    for (int k = 0; k < Packs; ++k)
#pragma unroll
      for (int lane = 0; lane < V; ++lane) sum += term(gradient.pack[k].value[lane], y.pack[k].value[lane]);
    sum = reduce_whole<Threads>(sum, Plus{});
#pragma unroll
    for (int k = 0; k < Packs; ++k)
#pragma unroll
      for (int lane = 0; lane < V; ++lane)
        gradient.pack[k].value[lane] = result(gradient.pack[k].value[lane], y.pack[k].value[lane], sum);
    store_row<Threads, Packs, V>(grad_in + row * length, length, gradient);
  }

  __device__ void run_long(std::int64_t row, std::int64_t length) const {
    run(RowWalk<long_row_threads, 0>{row * length, length});
  }

  template <class Walk>
  __device__ void run(const Walk& walk) const {
    const auto gradient = [&](std::int64_t i) { return widened(grad_out[walk.at(i)]); };
    const auto y = [&](std::int64_t i) { return widened(out[walk.at(i)]); };
    S sum = 0;
    walk.each([&](int, std::int64_t i) { sum += term(gradient(i), y(i)); });
    sum = walk.reduce(sum, Plus{});
    walk.each([&](int, std::int64_t i) { put(grad_in[walk.at(i)], result(gradient(i), y(i), sum)); });
  }
};

template <class Shape, class F>
__global__ void __launch_bounds__(block_threads<Shape::threads>) held_rows_kernel(std::int64_t rows, int length, F f) {
  begin_kernel();
  for_whole_rows<Shape::threads>(
      rows, [&](std::int64_t row, bool exists) { f.template run_held<Shape>(exists ? row : 0, exists ? length : 0); });
}

template <class F>
__global__ void __launch_bounds__(long_row_threads) rows_kernel(std::int64_t rows, std::int64_t length, F f) {
  begin_kernel();
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) f.run_long(row, length);
}

template <class F>
__global__ void columns_kernel(Axis axis, F f) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < axis.outer * axis.inner; i += global_threads())
    f.run(ColumnWalk{i / axis.inner * axis.length * axis.inner + i % axis.inner, axis.length, axis.inner});
}

/// A thread holds at most `Most` elements of each array.
template <class T, int Most, class F, class... Arrays>
void along(Context& context, const Axis& axis, F f, const Arrays*... arrays) {
  if (axis.outer == 0 || axis.length == 0 || axis.inner == 0) return;
  if (axis.inner > 1) {
    launch(context, Grid(blocks_for(axis.outer * axis.inner, 128), 128), columns_kernel<F>, axis, f);
    return;
  }
  const auto run = [&](auto shape) {
    using Shape = decltype(shape);
    launch(context, group_grid<Shape::threads>(axis.outer), held_rows_kernel<Shape, F>, axis.outer,
           static_cast<int>(axis.length), f);
  };
  constexpr int V = pack_of_registers<T>;
  const bool packs = axis.length % V == 0 && (aligned<V>(arrays) && ...);
  if (packs ? with_held_row<V, Most>(axis.outer, axis.length, run)
            : with_held_row<1, Most>(axis.outer, axis.length, run))
    return;
  launch(context, group_grid<long_row_threads>(axis.outer), rows_kernel<F>, axis.outer, axis.length, f);
}

}  // namespace

template <class T>
void softmax(Context& context, T* out, const T* in, const Axis& axis) {
  along<T, 64>(context, axis, SoftmaxForward<T, false>{out, in}, out, in);
}

template <class T>
void softmax_backward(Context& context, T* grad_in, const T* grad_out, const T* out, const Axis& axis) {
  along<T, 32>(context, axis, SoftmaxBackward<T, false>{grad_in, grad_out, out}, grad_in, grad_out, out);
}

template <class T>
void log_softmax(Context& context, T* out, const T* in, const Axis& axis) {
  along<T, 64>(context, axis, SoftmaxForward<T, true>{out, in}, out, in);
}

template <class T>
void log_softmax_backward(Context& context, T* grad_in, const T* grad_out, const T* out, const Axis& axis) {
  along<T, 32>(context, axis, SoftmaxBackward<T, true>{grad_in, grad_out, out}, grad_in, grad_out, out);
}

#define TERN_INSTANTIATE(T)                                                         \
  template void softmax<T>(Context&, T*, const T*, const Axis&);                    \
  template void softmax_backward<T>(Context&, T*, const T*, const T*, const Axis&); \
  template void log_softmax<T>(Context&, T*, const T*, const Axis&);                \
  template void log_softmax_backward<T>(Context&, T*, const T*, const T*, const Axis&);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)
TERN_INSTANTIATE(BFloat16)
TERN_INSTANTIATE(Float16)
#undef TERN_INSTANTIATE

}  // namespace tern::cuda
