// Batch normalisation: threads divide the channels, and each sums its elements in an order fixed by the shape. With
// channels last: batch_norm_rows.cpp. Local response is in local_response.cpp, rows are in row_norm.cpp.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/normalization.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "kernels/gradient.hpp"
#include "vectorized/batch_norm_ops.hpp"
#include "vectorized/batch_norm_rows.hpp"
#include "vectorized/block_sum.hpp"
#include "vectorized/clip.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/local_response.hpp"
#include "vectorized/row_norm.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/sum_blocks.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::BatchNorm;

constexpr double streamed = 0.3;  // rough cost of reading one element in nanoseconds

// ---- batch ---------------------------------------------------------------------------------------------------------

/// One channel whose elements are in rows of `area`. Numbers of a channel are vectors of equal lanes.
template <class T>
struct ChannelRows {
  static constexpr hn::ScalableTag<T> d{};
  using V = hn::Vec<hn::ScalableTag<T>>;
  const BatchNorm& p;
  std::int64_t c;

  /// Sum of op(in...) over the channel; blocks and rows are added in double, so that their number costs no accuracy.
  template <class Op, class... In>
  HWY_INLINE V sum(const Op& op, const In*... in) const {
    double total = 0;
    for (std::int64_t n = 0; n < p.N; ++n) total += block_sum(op, p.area, (in + (n * p.C + c) * p.area)...);
    return hn::Set(d, static_cast<T>(total));
  }
  template <class Op, class... In>
  HWY_INLINE void write(const Op& op, T* out, const In*... in) const {
    for (std::int64_t n = 0; n < p.N; ++n) {
      const std::int64_t at = (n * p.C + c) * p.area;
      map(op, out + at, p.area, (in + at)...);
    }
  }
  HWY_INLINE V load(const T* numbers) const { return hn::Set(d, numbers[c]); }
  HWY_INLINE void store(V value, T* numbers) const { numbers[c] = hn::GetLane(value); }
};

/// Calls body(channel) for all channels.
template <class T, class Body>
void for_channels(const Context& context, const BatchNorm& p, double nanoseconds, const Body& body) {
  const double per_channel = nanoseconds * static_cast<double>(p.N) * static_cast<double>(p.area);
  parallel_for(context, p.C, per_channel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) body(ChannelRows<T>{p, c});
  });
}

template <class T>
struct Added {
  bool clips;
  T top;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value, V added) const {
    const V sum = hn::Add(value, added);
    return clips ? Clip<T>{top}(d, sum) : sum;
  }
};
/// op(grad_y through the activation, x).
template <class Op>
struct Through {
  Op op;
  ThroughClip clip;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_y, V x, V y) const {
    return op(d, clip(d, grad_y, y), x);
  }
};
/// Turns the normalised values of a channel into y.
template <class T, class Channel>
void finish_channel(const Channel& channel, T* y, const T* added) {
  const T top = top_of<T>(channel.p.activation);
  const bool clipped = clips(channel.p.activation);
  if (added != nullptr)
    channel.write(Added<T>{clipped, top}, y, y, added);
  else if (clipped)
    channel.write(Clip<T>{top}, y, y);
}

template <class T>
struct Forward {
  const BatchNormArrays<T>& arrays;
  const BatchNorm& p;

  template <class Channel>
  void operator()(const Channel& channel) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const double elements = static_cast<double>(p.N) * static_cast<double>(p.area);
    const V count = hn::Set(d, static_cast<T>(elements)), one = hn::Set(d, T(1));
    V center = hn::Div(channel.sum(Same{}, arrays.x), count);
    V variance = hn::Div(channel.sum(SquareFrom<V>{center}, arrays.x), count);
    if (const auto far = far_means(d, center, variance); !hn::AllFalse(d, far)) {
      const V off = hn::Div(channel.sum(DeviationFrom<V>{center}, arrays.x), count);
      center = hn::Add(center, hn::IfThenElseZero(far, off));
      const V less = hn::Sub(variance, hn::IfThenElseZero(far, hn::Mul(off, off)));
      variance = hn::IfThenZeroElse(hn::Lt(less, hn::Zero(d)), less);
    }
    V inverse = hn::Div(one, hn::Sqrt(hn::Add(variance, hn::Set(d, static_cast<T>(p.epsilon)))));
    if (!hn::AllTrue(d, hn::IsFinite(variance))) {
      const Statistics<T> exact = exact_statistics(arrays.x, p, channel.c);
      center = hn::Set(d, exact.mean);
      variance = hn::Set(d, exact.variance);
      inverse = hn::Set(d, exact.inverse_deviation);
    }
    channel.store(center, arrays.mean);
    channel.store(inverse, arrays.inverse_deviation);
    channel.write(Normalize<V>{center, inverse, arrays.weight == nullptr ? one : channel.load(arrays.weight),
                               arrays.bias == nullptr ? hn::Zero(d) : channel.load(arrays.bias)},
                  arrays.y, arrays.x);
    finish_channel(channel, arrays.y, arrays.added);

    if (arrays.running_mean == nullptr || elements == 0) return;  // an empty batch does not change them
    const V unbiased = hn::Mul(variance, hn::Set(d, static_cast<T>(elements > 1 ? elements / (elements - 1) : 1)));
    const V keep = hn::Set(d, static_cast<T>(1 - p.momentum)), take = hn::Set(d, static_cast<T>(p.momentum));
    channel.store(hn::Add(hn::Mul(keep, channel.load(arrays.running_mean)), hn::Mul(take, center)),
                  arrays.running_mean);
    channel.store(hn::Add(hn::Mul(keep, channel.load(arrays.running_var)), hn::Mul(take, unbiased)),
                  arrays.running_var);
  }
};

template <class T>
struct Backward {
  const BatchNormGradients<T>& arrays;
  const BatchNorm& p;

  template <class Channel>
  void operator()(const Channel& channel) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const V count = hn::Set(d, static_cast<T>(static_cast<double>(p.N) * static_cast<double>(p.area)));
    const V center = channel.load(arrays.mean), inverse = channel.load(arrays.inverse_deviation);
    const GradientTimesNormalized<V> times{center, inverse};
    const bool clipped = clips(p.activation);
    const ThroughClip clip{p.activation == kernels::Activation::relu6};
    const V sum = clipped ? channel.sum(clip, arrays.grad_y, arrays.y) : channel.sum(Same{}, arrays.grad_y);
    const V product = clipped ? channel.sum(Through<decltype(times)>{times, clip}, arrays.grad_y, arrays.x, arrays.y)
                              : channel.sum(times, arrays.grad_y, arrays.x);
    if (arrays.grad_added != nullptr) channel.write(clip, arrays.grad_added, arrays.grad_y, arrays.y);
    if (arrays.grad_weight != nullptr) channel.store(product, arrays.grad_weight);
    if (arrays.grad_bias != nullptr) channel.store(sum, arrays.grad_bias);
    if (arrays.grad_x == nullptr) return;
    // Two factors on the same side of 1 are multiplied one after the other: their product may leave T's range.
    const V one = hn::Set(d, T(1)), factor = arrays.weight == nullptr ? one : channel.load(arrays.weight);
    const auto apart = hn::Xor(hn::Gt(inverse, one), hn::Gt(hn::Abs(factor), one));
    const V first = hn::IfThenElse(apart, hn::Mul(inverse, factor), inverse);
    const V second = hn::IfThenElse(apart, one, factor);
    const NormalizeGradient<V> whole{center, inverse, hn::Div(sum, count), hn::Div(product, count), first, second};
    if (clipped)
      channel.write(Through<NormalizeGradient<V>>{whole, clip}, arrays.grad_x, arrays.grad_y, arrays.x, arrays.y);
    else
      channel.write(whole, arrays.grad_x, arrays.grad_y, arrays.x);
  }
};

template <class T>
struct Inference {
  const BatchNormInference<T>& arrays;
  const BatchNorm& p;

  template <class Channel>
  void operator()(const Channel& channel) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const V deviation = hn::Sqrt(hn::Add(channel.load(arrays.running_var), hn::Set(d, static_cast<T>(p.epsilon))));
    const V one = hn::Set(d, T(1)), shift = arrays.bias == nullptr ? hn::Zero(d) : channel.load(arrays.bias);
    channel.write(Normalize<V>{channel.load(arrays.running_mean), hn::Div(one, deviation),
                               arrays.weight == nullptr ? one : channel.load(arrays.weight), shift},
                  arrays.y, arrays.x);
    finish_channel(channel, arrays.y, arrays.added);
  }
};

// ---- the slots -----------------------------------------------------------------------------------------------------

/// Channels last, all positions are images of area 1.
BatchNorm flat(const BatchNorm& p) {
  BatchNorm result = p;
  if (p.layout == kernels::Layout::channels_last) {
    result.N = p.N * p.area;
    result.area = 1;
  }
  return result;
}

template <class T>
void batch_norm(Context& context, T* y, T* mean, T* inverse_deviation, T* running_mean, T* running_var, const T* x,
                const T* weight, const T* bias, const T* added, const BatchNorm& shape) {
  const BatchNorm p = flat(shape);
  const BatchNormArrays<T> arrays{y, mean, inverse_deviation, running_mean, running_var, x, weight, bias, added};
  if (p.area == 1) return batch_norm_rows<T>().forward(context, arrays, p);
  for_channels<T>(context, p, 3 * streamed, Forward<T>{arrays, p});
}

template <class T>
void batch_norm_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, T* grad_added, const T* grad_y,
                         const T* x, const T* weight, const T* /*bias*/, const T* y, const T* mean,
                         const T* inverse_deviation, const BatchNorm& shape) {
  const BatchNorm p = flat(shape);
  const BatchNormGradients<T> arrays{grad_x, grad_weight, grad_bias, grad_added, grad_y,
                                     x,      weight,      y,         mean,       inverse_deviation};
  if (p.area == 1) return batch_norm_rows<T>().backward(context, arrays, p);
  for_channels<T>(context, p, 4 * streamed, Backward<T>{arrays, p});
}

template <class T>
void batch_norm_inference(Context& context, T* y, const T* x, const T* weight, const T* bias, const T* added,
                          const T* running_mean, const T* running_var, const BatchNorm& shape) {
  const BatchNorm p = flat(shape);
  const BatchNormInference<T> arrays{y, x, weight, bias, added, running_mean, running_var};
  if (p.area == 1) return batch_norm_rows<T>().inference(context, arrays, p);
  for_channels<T>(context, p, streamed, Inference<T>{arrays, p});
}

template <class T>
kernels::Normalization<T> table() {
  return {.local_response_norm = local_response<T>().forward,
          .local_response_norm_backward = local_response<T>().backward,
          .batch_norm = batch_norm<T>,
          .batch_norm_backward = kernels::gradient<batch_norm_backward<T>>(),
          .batch_norm_inference = batch_norm_inference<T>,
          .row_norm = row_norm<T>().forward,
          .row_norm_backward = row_norm<T>().backward};
}

}  // namespace

kernels::Normalization<float> normalization_float() { return table<float>(); }
kernels::Normalization<double> normalization_double() { return table<double>(); }

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(normalization, normalization)

}  // namespace tern::vectorized
#endif
