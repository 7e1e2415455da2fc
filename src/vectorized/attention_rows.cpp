#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/attention_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "vectorized/attention_rows.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/softmax.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Scaled {
  T factor;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    return hn::Mul(value, hn::Set(d, factor));
  }
};

template <class T>
struct ExpBelow {
  T shift;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    return HWY_NAMESPACE::exp(d, hn::Sub(value, hn::Set(d, shift)));
  }
};

template <class T>
struct WeightGradient {
  T inner;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad, V weight) const {
    return hn::Mul(weight, hn::Sub(grad, hn::Set(d, inner)));
  }
};

template <class T>
void scale(T* out, const T* in, T factor, std::int64_t n) {
  map(Scaled<T>{factor}, out, n, in);
}

template <class T>
T exp_of(T value) {
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(HWY_NAMESPACE::exp(d, hn::Set(d, value)));
}

template <class T>
void weigh(T* scores, std::int64_t n, RunningSoftmax<T>& running, T* result, std::int64_t values) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  const T largest = std::max(running.largest, array_max(scores, n)), shift = largest == lowest ? T(0) : largest;
  map(ExpBelow<T>{shift}, scores, n, scores);
  const T before = running.largest == lowest ? T(0) : running.sum * exp_of(running.largest - shift);
  const T sum = before + map_sum(Same{}, n, scores);
  running = {.largest = largest, .sum = sum};
  if (sum == 0) return;  // every score was -infinity so far
  scale(scores, scores, 1 / sum, n);
  if (before != sum) scale(result, result, before / sum, values);
}

template <class T>
void weigh_again(T* scores, std::int64_t n, T log_sum) {
  map(ExpBelow<T>{log_sum}, scores, n, scores);
}

template <class T>
void differentiate(T* grads, const T* weights, std::int64_t n, T inner) {
  map(WeightGradient<T>{inner}, grads, n, grads, weights);
}

/// In the order of a product's sums: where one key has all the weight, the gradient of its score is exactly 0.
template <class T>
T inner(const T* a, const T* b, std::int64_t n) {
  const hn::CappedTag<T, 1> d;
  auto sum = hn::Zero(d);
  for (std::int64_t i = 0; i < n; ++i) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  return hn::GetLane(sum);
}

template <class T>
const AttentionRows<T>& table() {
  static constexpr AttentionRows<T> table{.weigh = weigh<T>,
                                          .weigh_again = weigh_again<T>,
                                          .differentiate = differentiate<T>,
                                          .inner = inner<T>,
                                          .scale = scale<T>};
  return table;
}

const AttentionRows<float>& table_float() { return table<float>(); }
const AttentionRows<double>& table_double() { return table<double>(); }

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(attention_rows, table)

}  // namespace tern::vectorized
#endif
