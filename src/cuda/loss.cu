#include "cuda/cuda.hpp"
#include "cuda/label_loss.cuh"
#include "cuda/reduce.cuh"

namespace tern::cuda {
namespace {

using kernels::Reduce;

// ---- pointwise losses ----

template <class T>
struct SquaredError {
  __device__ T operator()(T x, T t) const { return (x - t) * (x - t); }
  __device__ T derivative(T x, T t) const { return 2 * (x - t); }
};
template <class T>
struct AbsoluteError {
  __device__ T operator()(T x, T t) const { return ::fabs(x - t); }
  __device__ T derivative(T x, T t) const { return x > t ? T(1) : x < t ? T(-1) : T(0); }
};
template <class T>
struct BinaryCrossEntropy {
  // Not fmax: NaN must stay NaN.
  __device__ T operator()(T x, T t) const { return (x < 0 ? T(0) : x) - x * t + ::log1p(::exp(-::fabs(x))); }
  __device__ T derivative(T x, T t) const {
    const T e = ::exp(-::fabs(x));
    return (x < 0 ? e / (1 + e) : 1 / (1 + e)) - t;
  }
};
template <class T>
struct Hinge {
  __device__ T operator()(T x, T t) const {
    const T margin = 1 - t * x;
    return margin < 0 ? T(0) : margin;
  }
  __device__ T derivative(T x, T t) const { return t * x < 1 ? -t : T(0); }
};

/// The loss of each element as the source of a reduction.
template <class T, class F>
struct Losses {
  const T *prediction, *target;
  template <int V>
  __device__ Pack<Scalar<T>, V> get(std::int64_t offset) const {
    return apply<V, Scalar<T>>(F{}, load<V>(prediction + offset), load<V>(target + offset));
  }
  template <int V>
  bool packable() const {
    return aligned<V>(prediction) && aligned<V>(target);
  }
};

template <class T, class F>
struct EachGradient {
  __device__ T operator()(T prediction, T target, T grad_loss) const {
    return grad_loss * F{}.derivative(prediction, target);
  }
};
template <class T, class F>
struct CommonGradient {
  const T* grad_loss;
  T divide;
  __device__ T operator()(T prediction, T target) const {
    return __ldg(grad_loss) / divide * F{}.derivative(prediction, target);
  }
};

// ---- the slots ----

template <class F, class T>
void pointwise(Context& context, Scalar<T>* loss, const T* prediction, const T* target, std::int64_t n,
               Reduce reduction) {
  if (reduction == Reduce::none) return map(context, n, F{}, loss, prediction, target);
  reduce<T>(context, {.length = n}, SumReducer<Scalar<T>>{loss, reduction == Reduce::mean, static_cast<Scalar<T>>(n)},
            Losses<T, F>{prediction, target});
}

template <class F, class T>
void pointwise_backward(Context& context, T* grad_prediction, const Scalar<T>* grad_loss, const T* prediction,
                        const T* target, std::int64_t n, Reduce reduction) {
  using S = Scalar<T>;
  if (reduction == Reduce::none)
    return map(context, n, EachGradient<S, F>{}, grad_prediction, prediction, target, grad_loss);
  map(context, n, CommonGradient<S, F>{grad_loss, reduction == Reduce::mean ? static_cast<S>(n) : S(1)},
      grad_prediction, prediction, target);
}

}  // namespace

template <class T>
kernels::Loss<T> loss() {
  using S = Scalar<T>;
  return {.cross_entropy = cross_entropy<T>,
          .cross_entropy_backward = cross_entropy_backward<T>,
          .nll = nll<T>,
          .nll_backward = nll_backward<T>,
          .mse = pointwise<SquaredError<S>, T>,
          .mse_backward = pointwise_backward<SquaredError<S>, T>,
          .mae = pointwise<AbsoluteError<S>, T>,
          .mae_backward = pointwise_backward<AbsoluteError<S>, T>,
          .binary_cross_entropy_with_logits = pointwise<BinaryCrossEntropy<S>, T>,
          .binary_cross_entropy_with_logits_backward = pointwise_backward<BinaryCrossEntropy<S>, T>,
          .hinge = pointwise<Hinge<S>, T>,
          .hinge_backward = pointwise_backward<Hinge<S>, T>};
}
template kernels::Loss<float> loss<float>();
template kernels::Loss<double> loss<double>();
template kernels::Loss<BFloat16> loss<BFloat16>();
template kernels::Loss<Float16> loss<Float16>();

}  // namespace tern::cuda
