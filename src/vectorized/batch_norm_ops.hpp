// What batch normalisation does with an element, in both layouts. Included once per instruction set.

#if defined(TERN_VECTORIZED_BATCH_NORM_OPS) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_BATCH_NORM_OPS
#undef TERN_VECTORIZED_BATCH_NORM_OPS
#else
#define TERN_VECTORIZED_BATCH_NORM_OPS
#endif

#include <cmath>

#include "tern/kernels/normalization.hpp"
#include "vectorized/block_sum.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {

/// grad_y times the normalised x.
template <class V>
struct GradientTimesNormalized {
  V mean, inverse;
  template <class D>
  HWY_INLINE V operator()(D /*d*/, V grad_y, V x) const {
    return hn::Mul(grad_y, hn::Mul(hn::Sub(x, mean), inverse));
  }
};
/// How the gradient of a clipped result begins: through relu where y is NaN too; through relu6 strictly between its
/// bounds.
struct ThroughClip {
  bool six;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_y, V y) const {
    const V zero = hn::Zero(d), top = hn::Set(d, hn::TFromD<D>(6));
    if (six) return hn::IfThenElseZero(hn::And(hn::Gt(y, zero), hn::Lt(y, top)), grad_y);
    return hn::IfThenZeroElse(hn::Le(y, zero), grad_y);
  }
};
/// first * (grad_y - grad_mean - (x - mean) * inverse * slope) * second, in an order that keeps large x in T's range.
template <class V>
struct NormalizeGradient {
  V mean, inverse, grad_mean, slope, first, second;
  template <class D>
  HWY_INLINE V operator()(D /*d*/, V grad_y, V x) const {
    const V normalized = hn::Mul(hn::Sub(x, mean), inverse);
    return hn::Mul(hn::Mul(first, hn::Sub(hn::Sub(grad_y, grad_mean), hn::Mul(normalized, slope))), second);
  }
};

/// Statistics of a channel.
template <class T>
struct Statistics {
  T mean, variance, inverse_deviation;

  Statistics(double own_mean, double squares, double epsilon)
      : mean(static_cast<T>(own_mean)),
        variance(static_cast<T>(squares)),
        inverse_deviation(static_cast<T>(1 / std::sqrt(squares + epsilon))) {}
};

/// Those of a channel whose squares leave T's range: in double.
template <class T>
HWY_NOINLINE Statistics<T> exact_statistics(const T* x, const kernels::BatchNorm& p, std::int64_t c) {
  const double count = static_cast<double>(p.N) * static_cast<double>(p.area);
  const auto mean_over = [&](const auto& value) {
    double sum = 0;
    for (std::int64_t n = 0; n < p.N; ++n)
      for (std::int64_t i = 0; i < p.area; ++i) sum += value(static_cast<double>(x[(n * p.C + c) * p.area + i]));
    return sum / count;
  };
  const double mean = mean_over([](double value) { return value; });
  return {mean, mean_over([&](double value) { return (value - mean) * (value - mean); }), p.epsilon};
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
