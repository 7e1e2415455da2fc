// Normalisation. Local response: lanes are positions, windows run over channels. Batch: channels are shared out among
// the threads, each adds up its elements in an order fixed by the shape.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/normalization.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "vectorized/fold.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::BatchNorm;
using kernels::LocalResponseNorm;

// Rough costs of one element in nanoseconds.
constexpr double streamed = 0.3, response_cost = 2;

// ---- local response ------------------------------------------------------------------------------------------------

/// base^beta. The usual 3/4 is two square roots, each correctly rounded.
template <class D, class V>
HWY_INLINE V response_power(D d, V base, double beta) {
  using T = hn::TFromD<D>;
  if (beta == 0.75) {
    const V root = hn::Sqrt(base);
    return hn::Mul(root, hn::Sqrt(root));
  }
  if (beta == 0.5) return hn::Sqrt(base);
  if (beta == 1) return base;
  HWY_ALIGN T lane[hn::MaxLanes(d)];
  hn::Store(base, d, lane);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = std::pow(lane[i], static_cast<T>(beta));
  return hn::Load(d, lane);
}

/// k + alpha / size * (sum of squares around channel c); x points at channel 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> response(D d, const T* x, std::int64_t c, std::int64_t columns, const LocalResponseNorm& p) {
  const std::int64_t first = c - p.size / 2;
  auto squares = hn::Zero(d);
  for (std::int64_t j = std::max<std::int64_t>(first, 0); j < std::min(first + p.size, p.C); ++j) {
    const auto value = load_columns(d, x + j * p.area, columns);
    squares = hn::Add(squares, hn::Mul(value, value));
  }
  return hn::Add(hn::Set(d, static_cast<T>(p.k)),
                 hn::Mul(hn::Set(d, static_cast<T>(p.alpha / static_cast<double>(p.size))), squares));
}

/// All channels of up to a vector of positions.
template <class T>
HWY_NOINLINE void response_norm(T* y, const T* x, std::int64_t columns, const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  for (std::int64_t c = 0; c < p.C; ++c) {
    const auto value = load_columns(d, x + c * p.area, columns);
    const auto power = response_power(d, response(d, x, c, columns, p), p.beta);
    store_columns(hn::Div(value, power), d, y + c * p.area, columns);
  }
}

/// The same for the gradient. `shares` and `powers` hold a vector per channel: grad_y y / response, and response^beta.
template <class T>
HWY_NOINLINE void response_norm_backward(T* grad_x, T* shares, T* powers, const T* grad_y, const T* x, const T* y,
                                         std::int64_t columns, const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, static_cast<T>(2 * p.alpha * p.beta / static_cast<double>(p.size)));
  for (std::int64_t c = 0; c < p.C; ++c) {
    const auto base = response(d, x, c, columns, p);
    const auto product =
        hn::Mul(load_columns(d, grad_y + c * p.area, columns), load_columns(d, y + c * p.area, columns));
    hn::StoreU(hn::Div(product, base), d, shares + c * lanes);
    hn::StoreU(response_power(d, base, p.beta), d, powers + c * lanes);
  }
  for (std::int64_t c = 0; c < p.C; ++c) {
    const std::int64_t last = c + p.size / 2;  // of the channels whose window includes c
    auto sum = hn::Zero(d);
    for (std::int64_t j = std::max<std::int64_t>(last - p.size + 1, 0); j <= std::min(last, p.C - 1); ++j)
      sum = hn::Add(sum, hn::LoadU(d, shares + j * lanes));
    const auto direct = hn::Div(load_columns(d, grad_y + c * p.area, columns), hn::LoadU(d, powers + c * lanes));
    const auto spread = hn::Mul(hn::Mul(factor, load_columns(d, x + c * p.area, columns)), sum);
    store_columns(hn::Sub(direct, spread), d, grad_x + c * p.area, columns);
  }
}

/// Calls body(thread, first element, positions) for every vector of positions of every image.
template <class T, class Body>
void for_positions(int threads, const LocalResponseNorm& p, const Body& body) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t groups = (p.area + lanes - 1) / lanes, items = p.N * groups;
  parallel(threads, [&](const Team& team) {
    for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
      const std::int64_t position = item % groups * lanes;
      body(team.index, item / groups * p.C * p.area + position, p.area - position);
    }
  });
}

double response_work(const LocalResponseNorm& p) {
  return response_cost * static_cast<double>(p.N) * static_cast<double>(p.C) * static_cast<double>(p.area);
}

// ---- batch ---------------------------------------------------------------------------------------------------------

/// One channel whose elements lie in rows of `area`. Numbers of a channel are vectors of equal lanes.
template <class T>
struct ChannelRows {
  static constexpr hn::ScalableTag<T> d{};
  using V = hn::Vec<hn::ScalableTag<T>>;
  const BatchNorm& p;
  std::int64_t c;

  /// Sum of op(in...) over the channel; rows are added up in double, so that their number costs no accuracy.
  template <class Op, class... In>
  HWY_INLINE V sum(const Op& op, const In*... in) const {
    double total = 0;
    for (std::int64_t n = 0; n < p.N; ++n) total += fold_sum(op, p.area, (in + (n * p.C + c) * p.area)...);
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
    constexpr std::int64_t stride = 16;  // rows added up apart, so that rounding grows more slowly than their number
    auto total = hn::Zero(d);
    for (std::int64_t first = 0; first < p.N; first += stride) {
      auto part = hn::Zero(d);
      for (std::int64_t n = first; n < std::min(p.N, first + stride); ++n)
        part = hn::Add(part, op(d, load(in + n * p.C)...));
      total = hn::Add(total, part);
    }
    return total;
  }
  template <class Op, class... In>
  HWY_INLINE void write(const Op& op, T* out, const In*... in) const {
    for (std::int64_t n = 0; n < p.N; ++n) store(op(d, load(in + n * p.C)...), out + n * p.C);
  }
  HWY_INLINE V load(const T* numbers) const { return load_columns(d, numbers + c, p.C - c); }
  HWY_INLINE void store(V value, T* numbers) const { store_columns(value, d, numbers + c, p.C - c); }
};

/// Calls body(channel) for all channels, alone or in vectors.
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
template <class V>
struct Normalize {
  V mean, scale, shift;
  template <class D>
  HWY_INLINE V operator()(D /*d*/, V x) const {
    return hn::Add(hn::Mul(hn::Sub(x, mean), scale), shift);
  }
};
/// scale * (grad_y - grad_mean - (x - mean) * slope).
template <class V>
struct NormalizeGradient {
  V mean, scale, grad_mean, slope;
  template <class D>
  HWY_INLINE V operator()(D /*d*/, V grad_y, V x) const {
    return hn::Mul(scale, hn::Sub(hn::Sub(grad_y, grad_mean), hn::Mul(hn::Sub(x, mean), slope)));
  }
};

template <class T>
struct BatchNormForward {
  T *y, *mean, *inverse_deviation, *running_mean, *running_var;
  const T *x, *weight, *bias;
  const BatchNorm& p;

  template <class Channel>
  void operator()(const Channel& channel) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const double elements = static_cast<double>(p.N) * static_cast<double>(p.area);
    const V count = hn::Set(d, static_cast<T>(elements)), one = hn::Set(d, T(1));
    const V center = hn::Div(channel.sum(Same{}, x), count);
    const V variance = hn::Div(channel.sum(SquaredDeviation<V>{center}, x), count);
    const V inverse = hn::Div(one, hn::Sqrt(hn::Add(variance, hn::Set(d, static_cast<T>(p.epsilon)))));
    channel.store(center, mean);
    channel.store(inverse, inverse_deviation);
    const V scale = weight == nullptr ? inverse : hn::Mul(inverse, channel.load(weight));
    channel.write(Normalize<V>{center, scale, bias == nullptr ? hn::Zero(d) : channel.load(bias)}, y, x);

    if (running_mean == nullptr || elements == 0) return;  // a batch of nothing has nothing to say about them
    const V unbiased = hn::Mul(variance, hn::Set(d, static_cast<T>(elements > 1 ? elements / (elements - 1) : 1)));
    const V keep = hn::Set(d, static_cast<T>(1 - p.momentum)), take = hn::Set(d, static_cast<T>(p.momentum));
    channel.store(hn::Add(hn::Mul(keep, channel.load(running_mean)), hn::Mul(take, center)), running_mean);
    channel.store(hn::Add(hn::Mul(keep, channel.load(running_var)), hn::Mul(take, unbiased)), running_var);
  }
};

template <class T>
struct BatchNormBackward {
  T *grad_x, *grad_weight, *grad_bias;
  const T *grad_y, *x, *weight, *mean, *inverse_deviation;
  const BatchNorm& p;

  template <class Channel>
  void operator()(const Channel& channel) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const V count = hn::Set(d, static_cast<T>(static_cast<double>(p.N) * static_cast<double>(p.area)));
    const V center = channel.load(mean), inverse = channel.load(inverse_deviation);
    const V sum = channel.sum(Same{}, grad_y);
    const V product = channel.sum(GradientTimesNormalized<V>{center, inverse}, grad_y, x);
    if (grad_weight != nullptr) channel.store(product, grad_weight);
    if (grad_bias != nullptr) channel.store(sum, grad_bias);
    if (grad_x == nullptr) return;
    const V scale = weight == nullptr ? inverse : hn::Mul(inverse, channel.load(weight));
    const V slope = hn::Div(hn::Mul(inverse, product), count);
    channel.write(NormalizeGradient<V>{center, scale, hn::Div(sum, count), slope}, grad_x, grad_y, x);
  }
};

template <class T>
struct BatchNormInference {
  T* y;
  const T *x, *weight, *bias, *running_mean, *running_var;
  const BatchNorm& p;

  template <class Channel>
  void operator()(const Channel& channel) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const V deviation = hn::Sqrt(hn::Add(channel.load(running_var), hn::Set(d, static_cast<T>(p.epsilon))));
    const V scale = hn::Div(weight == nullptr ? hn::Set(d, T(1)) : channel.load(weight), deviation);
    const V shift = bias == nullptr ? hn::Zero(d) : channel.load(bias);
    channel.write(Normalize<V>{channel.load(running_mean), scale, shift}, y, x);
  }
};

// ---- the slots -----------------------------------------------------------------------------------------------------

template <class T>
void local_response_norm(Context& context, T* y, const T* x, const LocalResponseNorm& p) {
  for_positions<T>(
      useful_threads(context, response_work(p)), p,
      [&](int /*thread*/, std::int64_t at, std::int64_t columns) { response_norm(y + at, x + at, columns, p); });
}

template <class T>
void local_response_norm_backward(Context& context, T* grad_x, const T* grad_y, const T* x, const T* y,
                                  const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const int threads = useful_threads(context, 2 * response_work(p));
  const std::int64_t vectors = p.C * static_cast<std::int64_t>(hn::Lanes(d));  // a vector per channel
  const Scratch scratch(context, static_cast<std::size_t>(2 * vectors * threads) * sizeof(T));
  for_positions<T>(threads, p, [&](int thread, std::int64_t at, std::int64_t columns) {
    T* shares = scratch.as<T>() + 2 * vectors * thread;
    response_norm_backward(grad_x + at, shares, shares + vectors, grad_y + at, x + at, y + at, columns, p);
  });
}

template <class T>
void batch_norm(Context& context, T* y, T* mean, T* inverse_deviation, T* running_mean, T* running_var, const T* x,
                const T* weight, const T* bias, const BatchNorm& p) {
  for_channels<T>(context, p, 3 * streamed,
                  BatchNormForward<T>{y, mean, inverse_deviation, running_mean, running_var, x, weight, bias, p});
}

template <class T>
void batch_norm_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                         const T* weight, const T* mean, const T* inverse_deviation, const BatchNorm& p) {
  for_channels<T>(context, p, 4 * streamed,
                  BatchNormBackward<T>{grad_x, grad_weight, grad_bias, grad_y, x, weight, mean, inverse_deviation, p});
}

template <class T>
void batch_norm_inference(Context& context, T* y, const T* x, const T* weight, const T* bias, const T* running_mean,
                          const T* running_var, const BatchNorm& p) {
  for_channels<T>(context, p, streamed, BatchNormInference<T>{y, x, weight, bias, running_mean, running_var, p});
}

template <class T>
kernels::Normalization<T> table() {
  return {.local_response_norm = local_response_norm<T>,
          .local_response_norm_backward = local_response_norm_backward<T>,
          .batch_norm = batch_norm<T>,
          .batch_norm_backward = batch_norm_backward<T>,
          .batch_norm_inference = batch_norm_inference<T>};
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
