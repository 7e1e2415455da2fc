// Activations: elementwise loops, and softmax row by row.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/activation.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "kernels/gradient.hpp"
#include "vectorized/activation_functions.hpp"
#include "vectorized/broadcast_maps.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/math.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/softmax.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::Axis;

// Rough costs of one element in nanoseconds, in addition to `streamed`.
constexpr double exponential = 1, two_functions = 2;

// ---- operations of vectors -----------------------------------------------------------------------------------------

struct Relu {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x);  // because of this comparison NaN stays NaN
  }
};
struct ReluBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V out) const {
    return hn::IfThenZeroElse(hn::Le(out, hn::Zero(d)), grad_out);  // through NaN it passes
  }
};

template <class T>
struct LeakyRelu {
  T slope;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(hn::Set(d, slope), x));
  }
};
template <class T>
struct LeakyReluBackward {
  T slope;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V in) const {
    return hn::IfThenElse(hn::Gt(in, hn::Zero(d)), grad_out, hn::Mul(hn::Set(d, slope), grad_out));
  }
};

struct SigmoidBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V out) const {
    return hn::Mul(hn::Mul(grad_out, out), hn::Sub(hn::Set(d, hn::TFromD<D>(1)), out));
  }
};

struct TanhBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V out) const {
    const V one = hn::Set(d, hn::TFromD<D>(1));
    return hn::Mul(grad_out, hn::Mul(hn::Sub(one, out), hn::Add(one, out)));
  }
};

struct Softplus {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return HWY_NAMESPACE::softplus(d, x);
  }
};
struct SoftplusBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V in) const {
    return hn::Mul(grad_out, HWY_NAMESPACE::sigmoid(d, in));
  }
};

struct GeluBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V in) const {
    V density;
    const V probability = normal_distribution(d, in, density);
    return hn::Mul(grad_out, hn::Add(probability, hn::Mul(in, density)));
  }
};

struct SiluBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V in) const {
    const V one = hn::Set(d, hn::TFromD<D>(1)), share = HWY_NAMESPACE::sigmoid(d, in);
    return hn::Mul(grad_out, hn::Mul(share, hn::Add(one, hn::Mul(in, hn::Sub(one, share)))));
  }
};

struct HardswishBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V in) const {
    const V three = hn::Set(d, hn::TFromD<D>(3)), half = hn::Set(d, hn::TFromD<D>(0.5));
    const V between = hn::Mul(grad_out, hn::Add(hn::Div(in, three), half));
    const V from_below = hn::IfThenZeroElse(hn::Le(in, hn::Neg(three)), between);
    return hn::IfThenElse(hn::Ge(in, three), grad_out, from_below);
  }
};

/// in - maximum - logarithm.
template <class T>
struct Lower {
  T maximum, logarithm;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Sub(hn::Sub(x, hn::Set(d, maximum)), hn::Set(d, logarithm));
  }
};
struct Product {
  template <class D, class V>
  HWY_INLINE V operator()(D /*d*/, V a, V b) const {
    return hn::Mul(a, b);
  }
};

/// grad_in of softmax; `sum` is sum(grad_out * out).
struct SoftmaxGradient {
  template <class D, class V>
  HWY_INLINE V operator()(D /*d*/, V grad_out, V out, V sum) const {
    return hn::Mul(out, hn::Sub(grad_out, sum));
  }
};
/// grad_in of log_softmax; `sum` is sum(grad_out).
struct LogSoftmaxGradient {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V out, V sum) const {
    return hn::Sub(grad_out, hn::Mul(HWY_NAMESPACE::exp(d, out), sum));
  }
};
/// The gradient of a row with a known sum.
template <class Gradient, class T>
struct WithSum {
  T sum;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V out) const {
    return Gradient{}(d, grad_out, out, hn::Set(d, sum));
  }
};
/// The terms that the two gradients sum.
struct First {
  template <class D, class V>
  HWY_INLINE V operator()(D /*d*/, V a, V /*b*/) const {
    return a;
  }
};

// ---- softmax along an axis -----------------------------------------------------------------------------------------

/// Calls body(first element, columns) for every vector of columns that shares an outer index.
template <class T, class Body>
void for_columns(const Context& context, const Axis& axis, double nanoseconds, const Body& body) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t groups = (axis.inner + lanes - 1) / lanes;
  const double cost = nanoseconds * static_cast<double>(axis.length) * static_cast<double>(std::min(lanes, axis.inner));
  parallel_for(context, axis.outer * groups, cost, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t column = item % groups * lanes;
      body(item / groups * axis.length * axis.inner + column, axis.inner - column);
    }
  });
}

template <bool logarithm, class T>
HWY_NOINLINE void softmax_columns(T* out, const T* in, std::int64_t length, std::int64_t inner, std::int64_t columns) {
  const hn::ScalableTag<T> d;
  auto maximum = load_columns(d, in, columns);
  for (std::int64_t i = 1; i < length; ++i) maximum = hn::Max(maximum, load_columns(d, in + i * inner, columns));
  auto sum = hn::Zero(d);
  for (std::int64_t i = 0; i < length; ++i) {
    const auto lowered = hn::Sub(load_columns(d, in + i * inner, columns), maximum);
    const auto raised = HWY_NAMESPACE::exp(d, lowered);
    sum = hn::Add(sum, raised);
    store_columns(logarithm ? lowered : raised, d, out + i * inner, columns);
  }
  if constexpr (logarithm) sum = HWY_NAMESPACE::log(d, sum);
  for (std::int64_t i = 0; i < length; ++i) {
    const auto value = load_columns(d, out + i * inner, columns);
    store_columns(logarithm ? hn::Sub(value, sum) : hn::Div(value, sum), d, out + i * inner, columns);
  }
}

template <class Term, class Gradient, class T>
HWY_NOINLINE void gradient_columns(T* grad_in, const T* grad_out, const T* out, std::int64_t length, std::int64_t inner,
                                   std::int64_t columns) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  for (std::int64_t i = 0; i < length * inner; i += inner)
    sum = hn::Add(sum, Term{}(d, load_columns(d, grad_out + i, columns), load_columns(d, out + i, columns)));
  for (std::int64_t i = 0; i < length * inner; i += inner) {
    const auto grad = Gradient{}(d, load_columns(d, grad_out + i, columns), load_columns(d, out + i, columns), sum);
    store_columns(grad, d, grad_in + i, columns);
  }
}

/// The exponentials are only summed: storing them would double the cost.
template <class T>
HWY_NOINLINE void log_softmax_row(T* out, const T* in, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const T maximum = array_max(in, n);
  const auto shift = hn::Set(d, maximum);
  auto sums = exp_vectors<false>(out, in, n, shift);
  if (const std::int64_t left = n % static_cast<std::int64_t>(hn::Lanes(d)); left > 0) {
    const auto value = HWY_NAMESPACE::exp(d, hn::Sub(load_first(d, in + n - left, left), shift));
    sums = hn::Add(sums, hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(left)), value));
  }
  const T sum = hn::GetLane(hn::SumOfLanes(d, sums));
  map(Lower<T>{maximum, std::log(sum)}, out, n, in);
}

template <class Term, class Gradient, class T>
void gradient(Context& context, T* grad_in, const T* grad_out, const T* out, const Axis& axis, double nanoseconds) {
  if (axis.length <= 0 || axis.inner <= 0) return;
  if (axis.inner == 1)
    return parallel_for(context, axis.outer, nanoseconds * static_cast<double>(axis.length),
                        [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
                          for (std::int64_t at = begin * axis.length; at < end * axis.length; at += axis.length) {
                            const T sum = map_sum(Term{}, axis.length, grad_out + at, out + at);
                            map(WithSum<Gradient, T>{sum}, grad_in + at, axis.length, grad_out + at, out + at);
                          }
                        });
  for_columns<T>(context, axis, nanoseconds, [&](std::int64_t at, std::int64_t columns) HWY_ATTR {
    gradient_columns<Term, Gradient>(grad_in + at, grad_out + at, out + at, axis.length, axis.inner, columns);
  });
}

// ---- the slots -----------------------------------------------------------------------------------------------------

template <class T>
void leaky_relu(Context& context, T* out, const T* in, std::int64_t n, T slope) {
  map_parallel(context, streamed, LeakyRelu<T>{slope}, out, n, in);
}

template <class T>
void leaky_relu_backward(Context& context, T* grad_in, const T* grad_out, const T* in, std::int64_t n, T slope) {
  map_parallel(context, streamed, LeakyReluBackward<T>{slope}, grad_in, n, grad_out, in);
}

template <class T>
void softmax(Context& context, T* out, const T* in, const Axis& axis) {
  if (axis.length <= 0 || axis.inner <= 0) return;
  if (axis.inner == 1)
    return parallel_for(context, axis.outer, exponential * static_cast<double>(axis.length),
                        [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
                          const std::int64_t at = begin * axis.length;
                          softmax_rows(out + at, in + at, end - begin, axis.length);
                        });
  for_columns<T>(context, axis, exponential, [&](std::int64_t at, std::int64_t columns) HWY_ATTR {
    softmax_columns<false>(out + at, in + at, axis.length, axis.inner, columns);
  });
}

template <class T>
void softmax_backward(Context& context, T* grad_in, const T* grad_out, const T* out, const Axis& axis) {
  gradient<Product, SoftmaxGradient>(context, grad_in, grad_out, out, axis, 2 * streamed);
}

template <class T>
void log_softmax(Context& context, T* out, const T* in, const Axis& axis) {
  if (axis.length <= 0 || axis.inner <= 0) return;
  if (axis.inner == 1)
    return parallel_for(context, axis.outer, exponential * static_cast<double>(axis.length),
                        [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
                          for (std::int64_t at = begin * axis.length; at < end * axis.length; at += axis.length)
                            log_softmax_row(out + at, in + at, axis.length);
                        });
  for_columns<T>(context, axis, exponential, [&](std::int64_t at, std::int64_t columns) HWY_ATTR {
    softmax_columns<true>(out + at, in + at, axis.length, axis.inner, columns);
  });
}

template <class T>
void log_softmax_backward(Context& context, T* grad_in, const T* grad_out, const T* out, const Axis& axis) {
  gradient<First, LogSoftmaxGradient>(context, grad_in, grad_out, out, axis, exponential);
}

template <class T>
kernels::Activations<T> table() {
  return {.relu = unary<streamed, Relu, T>,
          .relu_backward = kernels::gradient<unary_backward<streamed, ReluBackward, T>>(),
          .leaky_relu = leaky_relu<T>,
          .leaky_relu_backward = kernels::gradient<leaky_relu_backward<T>>(),
          .sigmoid = unary<exponential, Sigmoid, T>,
          .sigmoid_backward = kernels::gradient<unary_backward<streamed, SigmoidBackward, T>>(),
          .tanh = unary<exponential, Tanh, T>,
          .tanh_backward = kernels::gradient<unary_backward<streamed, TanhBackward, T>>(),
          .softplus = unary<two_functions, Softplus, T>,
          .softplus_backward = kernels::gradient<unary_backward<exponential, SoftplusBackward, T>>(),
          .gelu = unary<two_functions, Gelu, T>,
          .gelu_backward = kernels::gradient<unary_backward<two_functions, GeluBackward, T>>(),
          .silu = unary<exponential, Silu, T>,
          .silu_backward = kernels::gradient<unary_backward<exponential, SiluBackward, T>>(),
          .hardswish = unary<streamed, Hardswish, T>,
          .hardswish_backward = kernels::gradient<unary_backward<streamed, HardswishBackward, T>>(),
          .softmax = softmax<T>,
          .softmax_backward = kernels::gradient<softmax_backward<T>>(),
          .log_softmax = log_softmax<T>,
          .log_softmax_backward = kernels::gradient<log_softmax_backward<T>>()};
}

}  // namespace

kernels::Activations<float> activation_float() { return table<float>(); }
kernels::Activations<double> activation_double() { return table<double>(); }

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(activation, activation)

}  // namespace tern::vectorized
#endif
