#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/attention_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "vectorized/attention_rows.hpp"
#include "vectorized/cache.hpp"
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
void scale(Pitched<T> out, Pitched<const T> in, T factor, std::int64_t rows, std::int64_t n) {
  if (out.pitch == n && in.pitch == n) n *= rows, rows = 1;
  for (std::int64_t i = 0; i < rows; ++i) map(Scaled<T>{factor}, out.row(i), n, in.row(i));
}

template <class T>
T exp_of(T value) {
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(HWY_NAMESPACE::exp(d, hn::Set(d, value)));
}

std::int64_t seen_by(const ScoredRows& of, std::int64_t row) {
  return std::clamp<std::int64_t>(of.causal ? of.seen + row : of.seen, 0, of.count);
}

/// row[i] = exp(row[i] - shift) for n elements, and their sum; zeros behind them in the last vector.
template <class T>
HWY_INLINE T exp_below(T* row, std::int64_t n, T shift) {
  const hn::ScalableTag<T> d;
  const auto below = hn::Set(d, shift);
  auto sum = exp_vectors<true>(row, row, n, below);
  if (const std::int64_t left = n % static_cast<std::int64_t>(hn::Lanes(d)); left > 0) {
    T* const at = row + n - left;
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(left));
    const auto lowered = hn::IfThenElseZero(mask, hn::Sub(hn::LoadU(d, at), below));
    const auto value = hn::IfThenElseZero(mask, HWY_NAMESPACE::exp(d, lowered));
    hn::StoreU(value, d, at);
    sum = hn::Add(sum, value);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <class T>
HWY_INLINE void multiply_row(T* row, std::int64_t n, T factor) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, row + i), by), d, row + i);
  if (i < n) store_first(hn::Mul(load_first(d, row + i, n - i), by), d, row + i, n - i);
}

/// Several rows at a time, because each step of one waits for the one before.
template <class T>
void weigh(T* scores, const ScoredRows& of, RunningSoftmax<T>* running, Pitched<T> result, std::int64_t values) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  constexpr std::int64_t together = 4;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (std::int64_t first = 0; first < of.rows; first += together) {
    const std::int64_t last = std::min(first + together, of.rows);
    T largest[together], added[together];
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t n = seen_by(of, i);
      largest[i - first] =
          n == 0 ? running[i].largest : std::max(running[i].largest, array_max(scores + i * of.pitch, n));
    }
    for (std::int64_t i = first; i < last; ++i) {
      const T most = largest[i - first];
      added[i - first] = exp_below(scores + i * of.pitch, seen_by(of, i), most == lowest ? T(0) : most);
    }
    for (std::int64_t i = first; i < last; ++i) {
      T* const row = scores + i * of.pitch;
      const std::int64_t n = seen_by(of, i);
      std::fill(row + n, row + of.count, T(0));
      if (n == 0) continue;
      RunningSoftmax<T>& own = running[i];
      const T most = largest[i - first], shift = most == lowest ? T(0) : most;
      const T before = own.largest == lowest ? T(0) : own.sum * exp_of(own.largest - shift),
              sum = before + added[i - first];
      own = {.largest = most, .sum = sum};
      if (sum == 0) continue;  // every score was -infinity so far
      multiply_row(row, round_up(n, lanes), 1 / sum);
      if (result.at != nullptr && before != sum) multiply_row(result.row(i), values, before / sum);
    }
  }
}

template <class T>
void differentiate(T* weights, T* grads, const ScoredRows& of, const T* log_sum, const T* inner) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = 0; row < of.rows; ++row, weights += of.pitch, grads += of.pitch) {
    const std::int64_t n = seen_by(of, row);
    const auto below = hn::Set(d, log_sum[row]), less = hn::Set(d, inner[row]);
    for (std::int64_t i = 0; i < n; i += lanes) {
      const std::int64_t left = n - i;
      const auto weight = HWY_NAMESPACE::exp(d, hn::Sub(load_columns(d, weights + i, left), below));
      const auto grad = hn::Mul(weight, hn::Sub(load_columns(d, grads + i, left), less));
      store_columns(weight, d, weights + i, left);
      store_columns(grad, d, grads + i, left);
    }
    std::fill(weights + n, weights + of.count, T(0));
    std::fill(grads + n, grads + of.count, T(0));
  }
}

/// In the order of a product's sums: where one key has all the weight, the gradient of its score is exactly 0. Several
/// rows at a time, whose chains do not wait for each other.
template <class T>
void inner(T* out, Pitched<const T> a, Pitched<const T> b, std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t together = 8;
  const hn::CappedTag<T, 1> d;
  using V = hn::Vec<decltype(d)>;
  const auto some = [&]<int count>(std::integral_constant<int, count>) HWY_ATTR {
    V sums[count];
    for (V& sum : sums) sum = hn::Zero(d);
    for (std::int64_t i = 0; i < n; ++i)
      for (int r = 0; r < count; ++r)
        sums[r] = hn::MulAdd(hn::LoadU(d, a.row(r) + i), hn::LoadU(d, b.row(r) + i), sums[r]);
    for (int r = 0; r < count; ++r) out[r] = hn::GetLane(sums[r]);
    out += count, a.at = a.row(count), b.at = b.row(count);
  };
  for (; rows >= together; rows -= together) some(std::integral_constant<int, together>());
  for (; rows > 0; --rows) some(std::integral_constant<int, 1>());
}

template <class T>
const AttentionRows<T>& table() {
  static constexpr AttentionRows<T> table{
      .weigh = weigh<T>, .differentiate = differentiate<T>, .inner = inner<T>, .scale = scale<T>};
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
