// Batch normalisation: threads divide the channels, and each sums its elements in an order fixed by the shape. Local
// response is in local_response.cpp, rows are in row_norm.cpp.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/normalization.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "vectorized/block_sum.hpp"
#include "vectorized/clip.hpp"
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

/// Up to a vector of channels with area 1: lanes are channels.
template <class T>
struct ChannelColumns {
  static constexpr hn::ScalableTag<T> d{};
  using V = hn::Vec<hn::ScalableTag<T>>;
  const BatchNorm& p;
  std::int64_t c;

  template <class Op, class... In>
  HWY_INLINE V sum(const Op& op, const In*... in) const {
    return sum_rows(op, 0, p.N, in...);
  }
  /// Rows [begin, end): summed as a tree with 16 of them per leaf, so that rounding hardly grows with their number.
  template <class Op, class... In>
  V sum_rows(const Op& op, std::int64_t begin, std::int64_t end, const In*... in) const {
    constexpr std::int64_t leaf = 16;
    auto total = hn::Zero(d);
    if (end - begin > leaf) {
      const std::int64_t middle = begin + (end - begin + leaf - 1) / leaf / 2 * leaf;
      return hn::Add(sum_rows(op, begin, std::max(middle, begin + leaf), in...),
                     sum_rows(op, std::max(middle, begin + leaf), end, in...));
    }
    for (std::int64_t n = begin; n < end; ++n) total = hn::Add(total, op(d, load(in + n * p.C)...));
    return total;
  }
  template <class Op, class... In>
  HWY_INLINE void write(const Op& op, T* out, const In*... in) const {
    for (std::int64_t n = 0; n < p.N; ++n) store(op(d, load(in + n * p.C)...), out + n * p.C);
  }
  HWY_INLINE V load(const T* numbers) const { return load_columns(d, numbers + c, p.C - c); }
  HWY_INLINE void store(V value, T* numbers) const { store_columns(value, d, numbers + c, p.C - c); }
};

/// Calls body(channel) for all channels, one by one or in vectors.
template <class T, class Body>
void for_channels(const Context& context, const BatchNorm& p, double nanoseconds, const Body& body) {
  const double per_channel = nanoseconds * static_cast<double>(p.N) * static_cast<double>(p.area);
  if (p.area != 1)
    return parallel_for(context, p.C, per_channel, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) body(ChannelRows<T>{p, c});
    });
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  parallel_for(context, (p.C + lanes - 1) / lanes, per_channel * static_cast<double>(lanes),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t group = begin; group < end; ++group) body(ChannelColumns<T>{p, group * lanes});
               });
}

template <class V>
struct SquaredDeviation {
  V mean;
  template <class D>
  HWY_INLINE V operator()(D /*d*/, V x) const {
    const V deviation = hn::Sub(x, mean);
    return hn::Mul(deviation, deviation);
  }
};
template <class V>
struct GradientTimesNormalized {
  V mean, inverse;
  template <class D>
  HWY_INLINE V operator()(D /*d*/, V grad_y, V x) const {
    return hn::Mul(grad_y, hn::Mul(hn::Sub(x, mean), inverse));
  }
};
/// In this order, inverse * weight may be out of T's range.
template <class V>
struct Normalize {
  V mean, inverse, weight, shift;
  template <class D>
  HWY_INLINE V operator()(D /*d*/, V x) const {
    return hn::Add(hn::Mul(hn::Mul(hn::Sub(x, mean), inverse), weight), shift);
  }
};
/// Applied after the normalisation, and how its gradient begins.
template <class T>
struct Clip {
  T top;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    value = hn::IfThenZeroElse(hn::Le(value, hn::Zero(d)), value);
    return hn::IfThenElse(hn::Gt(value, hn::Set(d, top)), hn::Set(d, top), value);
  }
};
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
/// Through relu where y is NaN too; through relu6 strictly between its bounds.
struct ThroughClip {
  bool six;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_y, V y) const {
    const V zero = hn::Zero(d), top = hn::Set(d, hn::TFromD<D>(6));
    if (six) return hn::IfThenElseZero(hn::And(hn::Gt(y, zero), hn::Lt(y, top)), grad_y);
    return hn::IfThenZeroElse(hn::Le(y, zero), grad_y);
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

template <class T>
struct BatchNormForward {
  T *y, *mean, *inverse_deviation, *running_mean, *running_var;
  const T *x, *weight, *bias, *added;
  const BatchNorm& p;

  /// The statistics of channels from `first` on, one per lane, whose squares leave T's range: in double.
  template <class V>
  HWY_NOINLINE void exact_statistics(std::int64_t first, V& center, V& variance, V& inverse) const {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    HWY_ALIGN T centers[hn::MaxLanes(d)], variances[hn::MaxLanes(d)], inverses[hn::MaxLanes(d)];
    hn::Store(center, d, centers);
    hn::Store(variance, d, variances);
    hn::Store(inverse, d, inverses);
    const double count = static_cast<double>(p.N) * static_cast<double>(p.area);
    const auto mean_over = [&](std::int64_t c, const auto& value) {
      double sum = 0;
      for (std::int64_t n = 0; n < p.N; ++n)
        for (std::int64_t i = 0; i < p.area; ++i) sum += value(static_cast<double>(x[(n * p.C + c) * p.area + i]));
      return sum / count;
    };
    for (std::int64_t i = 0; i < (p.area == 1 ? std::min(lanes, p.C - first) : 1); ++i) {
      if (std::isfinite(variances[i])) continue;
      const double exact = mean_over(first + i, [](double value) { return value; });
      const double squares = mean_over(first + i, [&](double value) { return (value - exact) * (value - exact); });
      centers[i] = static_cast<T>(exact);
      variances[i] = static_cast<T>(squares);
      inverses[i] = static_cast<T>(1 / std::sqrt(squares + p.epsilon));
    }
    // One channel has equal lanes.
    center = p.area == 1 ? hn::Load(d, centers) : hn::Set(d, centers[0]);
    variance = p.area == 1 ? hn::Load(d, variances) : hn::Set(d, variances[0]);
    inverse = p.area == 1 ? hn::Load(d, inverses) : hn::Set(d, inverses[0]);
  }

  template <class Channel>
  void operator()(const Channel& channel) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const double elements = static_cast<double>(p.N) * static_cast<double>(p.area);
    const V count = hn::Set(d, static_cast<T>(elements)), one = hn::Set(d, T(1));
    V center = hn::Div(channel.sum(Same{}, x), count);
    V variance = hn::Div(channel.sum(SquaredDeviation<V>{center}, x), count);
    if (const auto far = far_means(d, center, variance); !hn::AllFalse(d, far)) {
      const V off = hn::Div(channel.sum(DeviationFrom<V>{center}, x), count);
      center = hn::Add(center, hn::IfThenElseZero(far, off));
      const V less = hn::Sub(variance, hn::IfThenElseZero(far, hn::Mul(off, off)));
      variance = hn::IfThenZeroElse(hn::Lt(less, hn::Zero(d)), less);
    }
    V inverse = hn::Div(one, hn::Sqrt(hn::Add(variance, hn::Set(d, static_cast<T>(p.epsilon)))));
    if (!hn::AllTrue(d, hn::IsFinite(variance))) exact_statistics(channel.c, center, variance, inverse);
    channel.store(center, mean);
    channel.store(inverse, inverse_deviation);
    channel.write(Normalize<V>{center, inverse, weight == nullptr ? one : channel.load(weight),
                               bias == nullptr ? hn::Zero(d) : channel.load(bias)},
                  y, x);
    finish_channel(channel, y, added);

    if (running_mean == nullptr || elements == 0) return;  // an empty batch does not change them
    const V unbiased = hn::Mul(variance, hn::Set(d, static_cast<T>(elements > 1 ? elements / (elements - 1) : 1)));
    const V keep = hn::Set(d, static_cast<T>(1 - p.momentum)), take = hn::Set(d, static_cast<T>(p.momentum));
    channel.store(hn::Add(hn::Mul(keep, channel.load(running_mean)), hn::Mul(take, center)), running_mean);
    channel.store(hn::Add(hn::Mul(keep, channel.load(running_var)), hn::Mul(take, unbiased)), running_var);
  }
};

template <class T>
struct BatchNormBackward {
  T *grad_x, *grad_weight, *grad_bias, *grad_added;
  const T *grad_y, *x, *weight, *y, *mean, *inverse_deviation;
  const BatchNorm& p;

  template <class Channel>
  void operator()(const Channel& channel) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const V count = hn::Set(d, static_cast<T>(static_cast<double>(p.N) * static_cast<double>(p.area)));
    const V center = channel.load(mean), inverse = channel.load(inverse_deviation);
    const GradientTimesNormalized<V> times{center, inverse};
    const bool clipped = clips(p.activation);
    const ThroughClip clip{p.activation == kernels::Activation::relu6};
    const V sum = clipped ? channel.sum(clip, grad_y, y) : channel.sum(Same{}, grad_y);
    const V product =
        clipped ? channel.sum(Through<decltype(times)>{times, clip}, grad_y, x, y) : channel.sum(times, grad_y, x);
    if (grad_added != nullptr) channel.write(clip, grad_added, grad_y, y);
    if (grad_weight != nullptr) channel.store(product, grad_weight);
    if (grad_bias != nullptr) channel.store(sum, grad_bias);
    if (grad_x == nullptr) return;
    // Two factors on the same side of 1 are multiplied one after the other: their product may leave T's range.
    const V one = hn::Set(d, T(1)), factor = weight == nullptr ? one : channel.load(weight);
    const auto apart = hn::Xor(hn::Gt(inverse, one), hn::Gt(hn::Abs(factor), one));
    const V first = hn::IfThenElse(apart, hn::Mul(inverse, factor), inverse);
    const V second = hn::IfThenElse(apart, one, factor);
    const NormalizeGradient<V> whole{center, inverse, hn::Div(sum, count), hn::Div(product, count), first, second};
    if (clipped)
      channel.write(Through<NormalizeGradient<V>>{whole, clip}, grad_x, grad_y, x, y);
    else
      channel.write(whole, grad_x, grad_y, x);
  }
};

template <class T>
struct BatchNormInference {
  T* y;
  const T *x, *weight, *bias, *added, *running_mean, *running_var;
  const BatchNorm& p;

  template <class Channel>
  void operator()(const Channel& channel) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const V deviation = hn::Sqrt(hn::Add(channel.load(running_var), hn::Set(d, static_cast<T>(p.epsilon))));
    const V one = hn::Set(d, T(1)), shift = bias == nullptr ? hn::Zero(d) : channel.load(bias);
    channel.write(Normalize<V>{channel.load(running_mean), hn::Div(one, deviation),
                               weight == nullptr ? one : channel.load(weight), shift},
                  y, x);
    finish_channel(channel, y, added);
  }
};

/// What inference_rows reads per channel.
template <class T>
HWY_NOINLINE void inference_numbers(T* numbers, std::int64_t pitch, const T* weight, const T* bias, const T* mean,
                                    const T* variance, const BatchNorm& p) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, T(1));
  for (std::int64_t c = 0; c < p.C; c += static_cast<std::int64_t>(hn::Lanes(d))) {
    const ChannelColumns<T> channel{p, c};
    const auto deviation = hn::Sqrt(hn::Add(channel.load(variance), hn::Set(d, static_cast<T>(p.epsilon))));
    channel.store(channel.load(mean), numbers);
    channel.store(hn::Div(one, deviation), numbers + pitch);
    channel.store(weight == nullptr ? one : channel.load(weight), numbers + 2 * pitch);
    channel.store(bias == nullptr ? hn::Zero(d) : channel.load(bias), numbers + 3 * pitch);
  }
}

/// Channels last, by positions: every row of x is read and written once. `numbers` are the mean, the inverse deviation,
/// the weight and the shift of each channel, [4, pitch].
template <class T>
HWY_NOINLINE void inference_rows(T* y, const T* x, const T* added, const T* numbers, std::int64_t pitch,
                                 std::int64_t channels, std::int64_t rows, kernels::Activation activation) {
  const hn::ScalableTag<T> d;
  const bool clipped = clips(activation);
  const Clip<T> clip{top_of<T>(activation)};
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t together = 4;  // rows that share the loads per channel
  for (std::int64_t first = 0; first < rows; first += together) {
    const std::int64_t begin = first * channels, end = std::min(first + together, rows) * channels;
    for (std::int64_t c = 0; c < channels; c += lanes) {
      const std::int64_t count = channels - c;
      const Normalize<V> normalize{hn::LoadU(d, numbers + c), hn::LoadU(d, numbers + pitch + c),
                                   hn::LoadU(d, numbers + 2 * pitch + c), hn::LoadU(d, numbers + 3 * pitch + c)};
      for (std::int64_t at = begin + c; at < end; at += channels) {
        V value = normalize(d, load_columns(d, x + at, count));
        if (added != nullptr) value = hn::Add(value, load_columns(d, added + at, count));
        store_columns(clipped ? clip(d, value) : value, d, y + at, count);
      }
    }
  }
}

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
  for_channels<T>(
      context, p, 3 * streamed,
      BatchNormForward<T>{y, mean, inverse_deviation, running_mean, running_var, x, weight, bias, added, p});
}

template <class T>
void batch_norm_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, T* grad_added, const T* grad_y,
                         const T* x, const T* weight, const T* /*bias*/, const T* y, const T* mean,
                         const T* inverse_deviation, const BatchNorm& shape) {
  const BatchNorm p = flat(shape);
  for_channels<T>(context, p, 4 * streamed,
                  BatchNormBackward<T>{grad_x, grad_weight, grad_bias, grad_added, grad_y, x, weight, y, mean,
                                       inverse_deviation, p});
}

template <class T>
void batch_norm_inference(Context& context, T* y, const T* x, const T* weight, const T* bias, const T* added,
                          const T* running_mean, const T* running_var, const BatchNorm& shape) {
  const BatchNorm p = flat(shape);
  if (p.area != 1)
    return for_channels<T>(context, p, streamed,
                           BatchNormInference<T>{y, x, weight, bias, added, running_mean, running_var, p});
  const std::int64_t pitch = (p.C + 63) / 64 * 64;
  const Scratch scratch(context, static_cast<std::size_t>(4 * pitch) * sizeof(T));
  T* const numbers = scratch.as<T>();
  std::fill_n(numbers, 4 * pitch, T{0});
  inference_numbers(numbers, pitch, weight, bias, running_mean, running_var, p);
  parallel_for(context, p.N, streamed * static_cast<double>(p.C), [=, &p](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * p.C;
    inference_rows(y + at, x + at, added == nullptr ? nullptr : added + at, numbers, pitch, p.C, end - begin,
                   p.activation);
  });
}

template <class T>
kernels::Normalization<T> table() {
  return {.local_response_norm = local_response<T>().forward,
          .local_response_norm_backward = local_response<T>().backward,
          .batch_norm = batch_norm<T>,
          .batch_norm_backward = batch_norm_backward<T>,
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

HWY_EXPORT(normalization_float);
HWY_EXPORT(normalization_double);

template <>
kernels::Normalization<float> normalization<float>() {
  return HWY_DYNAMIC_DISPATCH(normalization_float)();
}
template <>
kernels::Normalization<double> normalization<double>() {
  return HWY_DYNAMIC_DISPATCH(normalization_double)();
}

}  // namespace tern::vectorized
#endif
