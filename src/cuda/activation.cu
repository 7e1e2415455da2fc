#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"
#include "cuda/normal.cuh"
#include "cuda/sigmoid.cuh"
#include "cuda/softmax.cuh"
#include "tern/kernels/activation.hpp"

namespace tern::cuda {
namespace {

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
  __device__ Scalar<T> operator()(Scalar<T> x) const { return x * normal_of<T>(x).below; }
};
template <class T>
struct GeluBackward {
  __device__ Scalar<T> operator()(Scalar<T> grad_out, Scalar<T> in) const {
    constexpr auto inverse_root_two_pi = Scalar<T>(0.3989422804014326779);
    const Normal<Scalar<T>> normal = normal_of<T>(in);
    return grad_out * (normal.below + in * (inverse_root_two_pi * normal.bell));
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
          .gelu = unary<Gelu<T>, T>,
          .gelu_backward = unary_backward<GeluBackward<T>, T>,
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
