#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"
#include "cuda/rows.cuh"
#include "cuda/sigmoid.cuh"
#include "tern/kernels/activation.hpp"

namespace tern::cuda {
namespace {

using kernels::Axis;

// ---- the element functions ----

template <class T>
struct Relu {
  __device__ T operator()(T x) const { return x <= 0 ? T(0) : x; }
};
template <class T>
struct ReluBackward {
  __device__ T operator()(T grad_out, T out) const { return out <= 0 ? T(0) : grad_out; }
};
template <class T>
struct LeakyRelu {
  T slope;
  __device__ T operator()(T x) const { return x > 0 ? x : slope * x; }
};
template <class T>
struct LeakyReluBackward {
  T slope;
  __device__ T operator()(T grad_out, T in) const { return in > 0 ? grad_out : slope * grad_out; }
};
template <class T>
struct Sigmoid {
  __device__ T operator()(T x) const { return sigmoid_of(x); }
};
template <class T>
struct SigmoidBackward {
  __device__ T operator()(T grad_out, T out) const { return grad_out * out * (1 - out); }
};
template <class T>
struct Tanh {
  __device__ T operator()(T x) const { return ::tanh(x); }
};
template <class T>
struct TanhBackward {
  __device__ T operator()(T grad_out, T out) const { return grad_out * ((1 - out) * (1 + out)); }
};
template <class T>
struct Softplus {
  // Not fmax: NaN must stay NaN.
  __device__ T operator()(T x) const { return (x < 0 ? T(0) : x) + ::log1p(::exp(-::fabs(x))); }
};
template <class T>
struct SoftplusBackward {
  __device__ T operator()(T grad_out, T in) const { return grad_out * sigmoid_of(in); }
};
template <class T>
struct Gelu {
  __device__ T operator()(T x) const { return x * ::normcdf(x); }
};
template <class T>
struct GeluBackward {
  __device__ T operator()(T grad_out, T in) const {
    constexpr T inverse_root_two_pi = T(0.3989422804014326779);
    return grad_out * (::normcdf(in) + in * (inverse_root_two_pi * ::exp(T(-0.5) * in * in)));
  }
};

template <class T>
struct Silu {
  __device__ T operator()(T x) const { return x * sigmoid_of(x); }
};
template <class T>
struct SiluBackward {
  __device__ T operator()(T grad_out, T in) const {
    const T share = sigmoid_of(in);
    return grad_out * (share * (1 + in * (1 - share)));
  }
};
template <class T>
struct Hardswish {
  __device__ T operator()(T x) const {
    const T raised = x + 3, above = raised < 0 ? T(0) : raised;
    return x * ((above > 6 ? T(6) : above) / 6);
  }
};
template <class T>
struct HardswishBackward {
  __device__ T operator()(T grad_out, T in) const {
    if (in <= -3) return 0;
    return in >= 3 ? grad_out : grad_out * (in / 3 + T(0.5));
  }
};

// ---- softmax ----

template <class T, bool Logarithm>
struct SoftmaxForward {
  T* out;
  const T* in;
  template <class Walk>
  __device__ void run(const Walk& walk) const {
    if constexpr (Logarithm) {
      const Held<Walk, T> held(walk, in);
      Scalar<T> largest = -infinity<Scalar<T>>(), sum = 0;
      walk.each([&](int k, std::int64_t i) { largest = ::fmax(largest, held.get(k, i)); });
      largest = walk.reduce(largest, Largest{});
      walk.each([&](int k, std::int64_t i) { sum += ::exp(held.get(k, i) - largest); });
      const Scalar<T> shift = ::log(walk.reduce(sum, Plus{}));
      walk.each([&](int k, std::int64_t i) { put(out[walk.at(i)], held.get(k, i) - largest - shift); });
    } else {
      const SoftmaxRow<Walk, T> row(walk, in);
      walk.each([&](int k, std::int64_t i) { put(out[walk.at(i)], row.probability(k, i)); });
    }
  }
};

template <class T, bool Logarithm>
struct SoftmaxBackward {
  T* grad_in;
  const T *grad_out, *out;
  template <class Walk>
  __device__ void run(const Walk& walk) const {
    const Held<Walk, T> gradient(walk, grad_out), y(walk, out);
    Scalar<T> sum = 0;
    walk.each([&](int k, std::int64_t i) { sum += Logarithm ? gradient.get(k, i) : gradient.get(k, i) * y.get(k, i); });
    sum = walk.reduce(sum, Plus{});
    walk.each([&](int k, std::int64_t i) {
      put(grad_in[walk.at(i)],
          Logarithm ? gradient.get(k, i) - ::exp(y.get(k, i)) * sum : y.get(k, i) * (gradient.get(k, i) - sum));
    });
  }
};

template <class Shape, class F>
__global__ void rows_kernel(std::int64_t rows, std::int64_t length, F f) {
  begin_kernel();
  const std::int64_t step = global_threads() / Shape::threads;
  for (std::int64_t row = global_thread() / Shape::threads; row < rows; row += step)
    f.run(typename Shape::Walk{row * length, length});
}

template <class F>
__global__ void columns_kernel(Axis axis, F f) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < axis.outer * axis.inner; i += global_threads())
    f.run(ColumnWalk{i / axis.inner * axis.length * axis.inner + i % axis.inner, axis.length, axis.inner});
}

template <class F>
void along(Context& context, const Axis& axis, F f) {
  if (axis.outer == 0 || axis.length == 0 || axis.inner == 0) return;
  if (axis.inner > 1) {
    launch(context, Grid(blocks_for(axis.outer * axis.inner, 128), 128), columns_kernel<F>, axis, f);
    return;
  }
  with_row(axis.outer, axis.length, [&](auto shape) {
    using Shape = decltype(shape);
    launch(context, group_grid<Shape::threads>(axis.outer), rows_kernel<Shape, F>, axis.outer, axis.length, f);
  });
}

// ---- the slots ----

template <class F, class T>
void unary(Context& context, T* out, const T* in, std::int64_t n) {
  map(context, n, F{}, out, in);
}

template <class F, class T>
void unary_backward(Context& context, T* grad_in, const T* grad_out, const T* saved, std::int64_t n) {
  map(context, n, F{}, grad_in, grad_out, saved);
}

template <class T>
void leaky_relu(Context& context, T* out, const T* in, std::int64_t n, Scalar<T> slope) {
  map(context, n, LeakyRelu<Scalar<T>>{slope}, out, in);
}

template <class T>
void leaky_relu_backward(Context& context, T* grad_in, const T* grad_out, const T* in, std::int64_t n,
                         Scalar<T> slope) {
  map(context, n, LeakyReluBackward<Scalar<T>>{slope}, grad_in, grad_out, in);
}

template <class T>
void softmax(Context& context, T* out, const T* in, const Axis& axis) {
  along(context, axis, SoftmaxForward<T, false>{out, in});
}

template <class T>
void softmax_backward(Context& context, T* grad_in, const T* grad_out, const T* out, const Axis& axis) {
  along(context, axis, SoftmaxBackward<T, false>{grad_in, grad_out, out});
}

template <class T>
void log_softmax(Context& context, T* out, const T* in, const Axis& axis) {
  along(context, axis, SoftmaxForward<T, true>{out, in});
}

template <class T>
void log_softmax_backward(Context& context, T* grad_in, const T* grad_out, const T* out, const Axis& axis) {
  along(context, axis, SoftmaxBackward<T, true>{grad_in, grad_out, out});
}

}  // namespace

template <class T>
kernels::Activations<T> activation() {
  using S = Scalar<T>;
  return {.relu = unary<Relu<S>, T>,
          .relu_backward = unary_backward<ReluBackward<S>, T>,
          .leaky_relu = leaky_relu<T>,
          .leaky_relu_backward = leaky_relu_backward<T>,
          .sigmoid = unary<Sigmoid<S>, T>,
          .sigmoid_backward = unary_backward<SigmoidBackward<S>, T>,
          .tanh = unary<Tanh<S>, T>,
          .tanh_backward = unary_backward<TanhBackward<S>, T>,
          .softplus = unary<Softplus<S>, T>,
          .softplus_backward = unary_backward<SoftplusBackward<S>, T>,
          .gelu = unary<Gelu<S>, T>,
          .gelu_backward = unary_backward<GeluBackward<S>, T>,
          .silu = unary<Silu<S>, T>,
          .silu_backward = unary_backward<SiluBackward<S>, T>,
          .hardswish = unary<Hardswish<S>, T>,
          .hardswish_backward = unary_backward<HardswishBackward<S>, T>,
          .softmax = softmax<T>,
          .softmax_backward = softmax_backward<T>,
          .log_softmax = log_softmax<T>,
          .log_softmax_backward = log_softmax_backward<T>};
}
template kernels::Activations<float> activation<float>();
template kernels::Activations<double> activation<double>();
template kernels::Activations<BFloat16> activation<BFloat16>();
template kernels::Activations<Float16> activation<Float16>();

}  // namespace tern::cuda
