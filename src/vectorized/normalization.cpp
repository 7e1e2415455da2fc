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

/// 1 / sqrt(x) to about a unit in the last place, for ordinary x: an estimate and Newton steps, which cost a fraction
/// of a root and a quotient.
template <class D, class V>
HWY_INLINE V inverse_root(D d, V x) {
  V y = hn::ApproximateReciprocalSqrt(x);
  const V half = hn::Mul(x, hn::Set(d, 0.5f));
  constexpr int steps = HWY_TARGET <= HWY_AVX3 ? 1 : 2;  // from 14 bits, or from 12
  for (int i = 0; i < steps; ++i) {
    const V error = hn::NegMulAdd(hn::Mul(half, y), y, hn::Set(d, 0.5f));
    y = hn::MulAdd(y, error, y);
  }
  return y;
}

/// base^-beta and 1 / base.
template <class V>
struct ResponsePowers {
  V power, inverse;
};
template <class D, class V>
HWY_INLINE ResponsePowers<V> response_powers(D d, V base, double beta) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T(1));
  if (beta == 0.75) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
    if constexpr (sizeof(T) == 4) {
      const auto ordinary = hn::And(hn::Gt(base, hn::Set(d, 1e-30f)), hn::Lt(base, hn::Set(d, 1e30f)));
      if (hn::AllTrue(d, ordinary)) {
        const V root = inverse_root(d, base);                                               // base^-1/2
        return {hn::Mul(root, hn::Mul(root, inverse_root(d, root))), hn::Mul(root, root)};  // root^2 root^-1/2
      }
    }
#endif
    const V root = hn::Sqrt(base);
    return {hn::Div(one, hn::Mul(root, hn::Sqrt(root))), hn::Div(one, base)};
  }
  if (beta == 0.5) return {hn::Div(one, hn::Sqrt(base)), hn::Div(one, base)};
  if (beta == 1) return {hn::Div(one, base), hn::Div(one, base)};
  HWY_ALIGN T lane[hn::MaxLanes(d)];
  hn::Store(base, d, lane);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = std::pow(lane[i], static_cast<T>(-beta));
  return {hn::Load(d, lane), hn::Div(one, base)};
}

/// What the elements of local response norm share.
template <class D>
struct ResponseNumbers {
  hn::Vec<D> k, scale, factor;
  std::int64_t before, after;  ///< channels of a window before and behind its own
  double beta;
  ResponseNumbers(D d, const LocalResponseNorm& p)
      : k(number(d, p.k)),
        scale(number(d, p.alpha / static_cast<double>(p.size))),
        factor(number(d, 2 * p.alpha * p.beta / static_cast<double>(p.size))),
        before(p.size / 2),
        after(p.size - 1 - p.size / 2),
        beta(p.beta) {}
  static hn::Vec<D> number(D d, double value) { return hn::Set(d, static_cast<hn::TFromD<D>>(value)); }
};

/// Channels in rows of `area`, lanes are positions: the sum of squares around channel c; x points at channel 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> response(D d, const T* x, std::int64_t c, std::int64_t columns, const LocalResponseNorm& p,
                               const ResponseNumbers<D>& numbers) {
  auto squares = hn::Zero(d);
  const std::int64_t first = std::max<std::int64_t>(c - numbers.before, 0);
  for (std::int64_t j = first; j <= std::min(c + numbers.after, p.C - 1); ++j) {
    const auto value = load_columns(d, x + j * p.area, columns);
    squares = hn::Add(squares, hn::Mul(value, value));
  }
  return hn::Add(numbers.k, hn::Mul(numbers.scale, squares));
}

/// All channels of up to a vector of positions.
template <class T>
HWY_NOINLINE void response_norm(T* y, const T* x, std::int64_t columns, const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const ResponseNumbers<hn::ScalableTag<T>> numbers(d, p);
  for (std::int64_t c = 0; c < p.C; ++c) {
    const auto value = load_columns(d, x + c * p.area, columns);
    const auto powers = response_powers(d, response(d, x, c, columns, p, numbers), p.beta);
    store_columns(hn::Mul(value, powers.power), d, y + c * p.area, columns);
  }
}

/// The same for the gradient. `shares` and `powers` hold a vector per channel: grad_y y / response, and response^-beta.
template <class T>
HWY_NOINLINE void response_norm_backward(T* grad_x, T* shares, T* powers, const T* grad_y, const T* x, const T* y,
                                         std::int64_t columns, const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const ResponseNumbers<hn::ScalableTag<T>> numbers(d, p);
  for (std::int64_t c = 0; c < p.C; ++c) {
    const auto own = response_powers(d, response(d, x, c, columns, p, numbers), p.beta);
    const auto product =
        hn::Mul(load_columns(d, grad_y + c * p.area, columns), load_columns(d, y + c * p.area, columns));
    hn::StoreU(hn::Mul(product, own.inverse), d, shares + c * lanes);
    hn::StoreU(own.power, d, powers + c * lanes);
  }
  for (std::int64_t c = 0; c < p.C; ++c) {  // the windows that include c
    auto sum = hn::Zero(d);
    const std::int64_t first = std::max<std::int64_t>(c - numbers.after, 0);
    for (std::int64_t j = first; j <= std::min(c + numbers.before, p.C - 1); ++j)
      sum = hn::Add(sum, hn::LoadU(d, shares + j * lanes));
    const auto direct = hn::Mul(load_columns(d, grad_y + c * p.area, columns), hn::LoadU(d, powers + c * lanes));
    const auto spread = hn::Mul(hn::Mul(numbers.factor, load_columns(d, x + c * p.area, columns)), sum);
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

// ---- local response, channels last ---------------------------------------------------------------------------------
// Lanes are channels. What windows add up lies in a row of scratch with zeros on both sides, from which vectors are
// read at every offset.

/// Elements of such a row.
template <class T>
std::int64_t response_row(const LocalResponseNorm& p) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  return (p.C + 2 * p.size + 2 * lanes) / 16 * 16 + 16;
}

/// The sum of `row` over a window that begins `before` in front of channel c; row points at channel 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> window_sum(D d, const T* row, std::int64_t before, std::int64_t size) {
  if (size == 5) {  // the usual one, without a loop's chain of additions
    const T* from = row - before;
    return hn::Add(hn::Add(hn::Add(hn::LoadU(d, from), hn::LoadU(d, from + 1)),
                           hn::Add(hn::LoadU(d, from + 2), hn::LoadU(d, from + 3))),
                   hn::LoadU(d, from + 4));
  }
  auto sum = hn::Zero(d);
  for (std::int64_t j = -before; j < size - before; ++j) sum = hn::Add(sum, hn::LoadU(d, row + j));
  return sum;
}

/// The squares of a position's channels.
template <class T>
HWY_INLINE void square_row(T* row, const T* x, std::int64_t C) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t c = 0; c < C; c += lanes) {
    const auto value = load_columns(d, x + c, C - c);
    hn::StoreU(hn::Mul(value, value), d, row + c);
  }
}

/// `squares` is a row, zeros everywhere at first.
template <class T>
HWY_NOINLINE void response_norm_rows(T* y, const T* x, T* squares, std::int64_t positions, const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const ResponseNumbers<hn::ScalableTag<T>> numbers(d, p);
  T* const row = squares + p.size;
  for (std::int64_t i = 0; i < positions; ++i, x += p.C, y += p.C) {
    square_row(row, x, p.C);
    for (std::int64_t c = 0; c < p.C; c += lanes) {
      const auto base = hn::Add(numbers.k, hn::Mul(numbers.scale, window_sum(d, row + c, numbers.before, p.size)));
      const auto value = load_columns(d, x + c, p.C - c);
      store_columns(hn::Mul(value, response_powers(d, base, p.beta).power), d, y + c, p.C - c);
    }
  }
}

/// `rows` are three, zeros everywhere at first.
template <class T>
HWY_NOINLINE void response_norm_rows_backward(T* grad_x, const T* grad_y, const T* x, const T* y, T* rows,
                                              std::int64_t positions, const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const ResponseNumbers<hn::ScalableTag<T>> numbers(d, p);
  T* const squares = rows + p.size;
  T* const shares = squares + response_row<T>(p);
  T* const powers = shares + response_row<T>(p);
  for (std::int64_t i = 0; i < positions; ++i, x += p.C, y += p.C, grad_y += p.C, grad_x += p.C) {
    square_row(squares, x, p.C);
    for (std::int64_t c = 0; c < p.C; c += lanes) {
      const auto base = hn::Add(numbers.k, hn::Mul(numbers.scale, window_sum(d, squares + c, numbers.before, p.size)));
      const auto own = response_powers(d, base, p.beta);
      const auto product = hn::Mul(load_columns(d, grad_y + c, p.C - c), load_columns(d, y + c, p.C - c));
      hn::StoreU(hn::Mul(product, own.inverse), d, shares + c);  // behind the last channel: 0
      hn::StoreU(own.power, d, powers + c);
    }
    for (std::int64_t c = 0; c < p.C; c += lanes) {
      const auto sum = window_sum(d, shares + c, numbers.after, p.size);
      const auto direct = hn::Mul(load_columns(d, grad_y + c, p.C - c), hn::LoadU(d, powers + c));
      const auto spread = hn::Mul(hn::Mul(numbers.factor, load_columns(d, x + c, p.C - c)), sum);
      store_columns(hn::Sub(direct, spread), d, grad_x + c, p.C - c);
    }
  }
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
    return sum_rows(op, 0, p.N, in...);
  }
  /// Rows [begin, end): added up as a tree with 16 of them at each leaf, so that rounding hardly grows with their
  /// number.
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
  const int threads = useful_threads(context, response_work(p));
  if (p.layout == kernels::Layout::channels_first)
    return for_positions<T>(threads, p, [&](int /*thread*/, std::int64_t at, std::int64_t columns) {
      response_norm(y + at, x + at, columns, p);
    });
  const std::int64_t row = response_row<T>(p);
  const Scratch scratch(context, static_cast<std::size_t>(row * threads) * sizeof(T));
  parallel(threads, [&](const Team& team) {
    T* const mine = scratch.as<T>() + row * team.index;
    std::fill_n(mine, row, T(0));
    const std::int64_t begin = team.begin(p.N * p.area), end = team.end(p.N * p.area);
    response_norm_rows(y + begin * p.C, x + begin * p.C, mine, end - begin, p);
  });
}

template <class T>
void local_response_norm_backward(Context& context, T* grad_x, const T* grad_y, const T* x, const T* y,
                                  const LocalResponseNorm& p) {
  const hn::ScalableTag<T> d;
  const int threads = useful_threads(context, 2 * response_work(p));
  const bool last = p.layout == kernels::Layout::channels_last;
  const std::int64_t vectors = p.C * static_cast<std::int64_t>(hn::Lanes(d));  // a vector per channel
  const std::int64_t each = last ? 3 * response_row<T>(p) : 2 * vectors;
  const Scratch scratch(context, static_cast<std::size_t>(each * threads) * sizeof(T));
  if (last)
    return parallel(threads, [&](const Team& team) {
      T* const mine = scratch.as<T>() + each * team.index;
      std::fill_n(mine, each, T(0));
      const std::int64_t begin = team.begin(p.N * p.area), end = team.end(p.N * p.area), at = begin * p.C;
      response_norm_rows_backward(grad_x + at, grad_y + at, x + at, y + at, mine, end - begin, p);
    });
  for_positions<T>(threads, p, [&](int thread, std::int64_t at, std::int64_t columns) {
    T* shares = scratch.as<T>() + each * thread;
    response_norm_backward(grad_x + at, shares, shares + vectors, grad_y + at, x + at, y + at, columns, p);
  });
}

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
                const T* weight, const T* bias, const BatchNorm& shape) {
  const BatchNorm p = flat(shape);
  for_channels<T>(context, p, 3 * streamed,
                  BatchNormForward<T>{y, mean, inverse_deviation, running_mean, running_var, x, weight, bias, p});
}

template <class T>
void batch_norm_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                         const T* weight, const T* mean, const T* inverse_deviation, const BatchNorm& shape) {
  const BatchNorm p = flat(shape);
  for_channels<T>(context, p, 4 * streamed,
                  BatchNormBackward<T>{grad_x, grad_weight, grad_bias, grad_y, x, weight, mean, inverse_deviation, p});
}

template <class T>
void batch_norm_inference(Context& context, T* y, const T* x, const T* weight, const T* bias, const T* running_mean,
                          const T* running_var, const BatchNorm& shape) {
  const BatchNorm p = flat(shape);
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
