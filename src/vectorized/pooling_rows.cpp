#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/pooling_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "core/built.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/pooling_rows.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/windows.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

using kernels::AdaptivePool2d;

// ---- windows along one axis ----------------------------------------------------------------------------------------
// Output o takes its inputs at(o, k) for k in [first(o), last(o)); input i belongs to the outputs [begin(i), end(i)) as
// their tap(o, i), or not at all (-1).

struct StridedAxis {
  std::int64_t in, out, K, stride, pad, dilation;
  bool count_pad;

  std::int64_t at(std::int64_t o, std::int64_t k) const { return o * stride - pad + k * dilation; }
  std::int64_t first(std::int64_t o) const { return kernel_rows(at(o, 0), K, dilation, in).first; }
  std::int64_t last(std::int64_t o) const { return kernel_rows(at(o, 0), K, dilation, in).last; }
  std::int64_t begin(std::int64_t i) const {
    const std::int64_t room = i + pad - (K - 1) * dilation;
    return room <= 0 ? 0 : quotient(room + stride - 1, stride);
  }
  std::int64_t end(std::int64_t i) const { return std::min(out, quotient(i + pad, stride) + 1); }
  std::int64_t tap(std::int64_t o, std::int64_t i) const {
    const std::int64_t distance = i - at(o, 0);  // not negative for one of its outputs
    const std::int64_t tap = quotient(distance, dilation);
    return tap * dilation == distance ? tap : -1;
  }
  /// The divisor of an average; dilation is 1.
  std::int64_t count(std::int64_t o) const { return count_pad ? std::min(K, in + pad - at(o, 0)) : last(o) - first(o); }
};

struct AdaptiveAxis {
  std::int64_t in, out;

  std::int64_t at(std::int64_t o, std::int64_t k) const { return o * in / out + k; }
  std::int64_t first(std::int64_t /*o*/) const { return 0; }
  std::int64_t last(std::int64_t o) const { return ((o + 1) * in + out - 1) / out - o * in / out; }
  std::int64_t begin(std::int64_t i) const {
    std::int64_t o = i * out / in;
    while (o > 0 && at(o - 1, last(o - 1)) > i) --o;
    return o;
  }
  std::int64_t end(std::int64_t i) const {
    std::int64_t o = i * out / in + 1;
    while (o < out && at(o, 0) <= i) ++o;
    return o;
  }
  std::int64_t tap(std::int64_t o, std::int64_t i) const { return i - at(o, 0); }
  std::int64_t count(std::int64_t o) const { return last(o); }
};

template <class Axis>
struct Axes {
  Axis h, w;
  std::int64_t images, channels;
};

Axes<StridedAxis> axes_of(const Pool2d& p) {
  return {{p.H, p.OH, p.KH, p.stride_h, p.pad_h, p.dilation_h, p.count_include_pad},
          {p.W, p.OW, p.KW, p.stride_w, p.pad_w, p.dilation_w, p.count_include_pad},
          p.planes / p.channels,
          p.channels};
}
Axes<AdaptiveAxis> axes_of(const AdaptivePool2d& p) {
  return {{p.H, p.OH}, {p.W, p.OW}, p.planes / p.channels, p.channels};
}

/// Calls body(row of the image, image) for all rows; an image has `rows` rows.
template <class Body>
void for_rows(const Context& context, std::int64_t images, std::int64_t rows, double nanoseconds, const Body& body) {
  parallel_for(context, images * rows, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) body(item % rows, item / rows);
  });
}

/// Rough cost of `elements`, each in this many windows.
double cost(std::int64_t elements, double windows) { return static_cast<double>(elements) * (0.1 + 0.05 * windows); }

/// Calls body(vector tag, first channel, channels) for vectors of channels. The last one overlaps the one before it: a
/// part of a vector costs several times as much.
template <class T, class Body>
HWY_INLINE void for_channels(std::int64_t channels, const Body& body) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t last = std::max<std::int64_t>(channels - lanes, 0);
  for (std::int64_t c = 0; c < channels; c += lanes) body(d, std::min(c, last), channels - std::min(c, last));
}

// ---- maxima --------------------------------------------------------------------------------------------------------

/// What one term of a window reads: where, and at which position of the window.
template <class Position>
struct Tap {
  std::int64_t from;
  Position position;
};
constexpr std::size_t most_taps = 256;  // an index is a byte

template <class D>
HWY_INLINE void store_positions(D d, hn::Vec<D> where, std::uint8_t* index, std::int64_t count) {
  const hn::Rebind<std::uint8_t, D> bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (count >= lanes) return hn::StoreU(position_bytes(d, where), bytes, index);
  std::uint8_t buffer[hn::MaxLanes(D{})];
  hn::StoreU(position_bytes(d, where), bytes, buffer);
  std::copy_n(buffer, count, index);
}

/// The maximum and its position where no value is NaN; otherwise, and for infinities of both signs, `sum` is NaN.
template <class D>
struct NumberState {
  hn::Vec<D> best, where, sum;
  HWY_INLINE NumberState(D d, std::int64_t first)
      : best(hn::Set(d, -std::numeric_limits<hn::TFromD<D>>::infinity())),
        where(hn::Set(d, static_cast<hn::TFromD<D>>(first))),
        sum(hn::Zero(d)) {}
  HWY_INLINE void take(D d, hn::Vec<D> value, auto position) {
    const auto larger = hn::Gt(value, best);
    best = hn::IfThenElse(larger, value, best);
    where = hn::IfThenElse(larger, hn::Set(d, static_cast<hn::TFromD<D>>(position)), where);
    sum = hn::Add(sum, value);
  }
};

template <template <class> class State, class T>
void max_by(const Context& context, T* out, std::uint8_t* index, const T* in, const Pool2d& p) {
  const auto axes = axes_of(p);
  const std::int64_t C = p.channels;
  for_rows(context, axes.images, p.OH, cost(p.OW * C, static_cast<double>(p.KH * p.KW)),
           [&](std::int64_t oh, std::int64_t n) HWY_ATTR {
             const std::int64_t top = axes.h.first(oh), bottom = axes.h.last(oh);
             Tap<T> taps[most_taps];
             for (std::int64_t ow = 0; ow < p.OW; ++ow) {
               const std::int64_t left = axes.w.first(ow), right = axes.w.last(ow);
               const T* const corner = in + ((n * p.H + axes.h.at(oh, 0)) * p.W + axes.w.at(ow, 0)) * C;
               const std::int64_t to = ((n * p.OH + oh) * p.OW + ow) * C;
               Tap<T>* end = taps;
               for (std::int64_t kh = top; kh < bottom; ++kh)
                 for (std::int64_t kw = left; kw < right; ++kw)
                   *end++ = {(kh * p.dilation_h * p.W + kw * p.dilation_w) * C, static_cast<T>(kh * p.KW + kw)};
               const std::int64_t first = end == taps ? 0 : top * p.KW + left;
               for_channels<T>(C, [&](auto d, std::int64_t c, std::int64_t count) HWY_ATTR {
                 using D = decltype(d);
                 const auto visit = [&](auto state) HWY_ATTR {
                   for (const auto* tap = taps; tap != end; ++tap)
                     state.take(d, load_columns(d, corner + tap->from + c, count), tap->position);
                   return state;
                 };
                 const auto store = [&](const auto& state) HWY_ATTR {
                   store_columns(state.best, d, out + to + c, count);
                   store_positions(d, state.where, index + to + c, count);
                 };
                 if constexpr (std::is_same_v<State<D>, LargestState<D>>) {
                   store_columns(largest_of(d, visit(State<D>(d, first))), d, out + to + c, count);
                 } else if (const auto numbers = visit(NumberState<D>(d, first));
                            hn::AllFalse(d, hn::IsNaN(numbers.sum))) {
                   store(numbers);
                 } else {
                   store(visit(State<D>(d, first)));
                 }
               });
             }
           });
}
template <class T>
void max(const Context& context, T* out, std::uint8_t* index, const T* in, const Pool2d& p) {
  index == nullptr ? max_by<LargestState>(context, out, index, in, p) : max_by<MaxState>(context, out, index, in, p);
}

template <class D>
HWY_INLINE auto is_position(D d, const std::uint8_t* index, std::int64_t count, std::int32_t position) {
  const auto compared = [&](const std::uint8_t* at) HWY_ATTR {
    if constexpr (sizeof(hn::TFromD<D>) == 4) {
      const hn::Rebind<std::int32_t, D> words;
      const hn::Rebind<std::uint8_t, D> bytes;
      return hn::RebindMask(d, hn::Eq(hn::PromoteTo(words, hn::LoadU(bytes, at)), hn::Set(words, position)));
    } else {
      return hn::Eq(positions_of(d, at), hn::Set(d, static_cast<hn::TFromD<D>>(position)));
    }
  };
  if (count >= static_cast<std::int64_t>(hn::Lanes(d))) return compared(index);
  std::uint8_t buffer[hn::MaxLanes(D{})] = {};
  std::copy_n(index, count, buffer);
  return compared(buffer);
}

template <class T>
void max_backward(const Context& context, T* grad_in, const T* grad_out, const std::uint8_t* index, const Pool2d& p) {
  const auto axes = axes_of(p);
  const std::int64_t C = p.channels;
  const double windows = static_cast<double>(p.KH * p.KW) / static_cast<double>(p.stride_h * p.stride_w);
  for_rows(context, axes.images, p.H, cost(p.W * C, 2 * windows), [&](std::int64_t h, std::int64_t n) HWY_ATTR {
    const std::int64_t top = axes.h.begin(h), bottom = axes.h.end(h);
    Tap<std::int32_t> taps[most_taps];
    for (std::int64_t w = 0; w < p.W; ++w) {
      const std::int64_t left = axes.w.begin(w), right = axes.w.end(w);
      Tap<std::int32_t>* end = taps;
      for (std::int64_t oh = top; oh < bottom; ++oh) {
        const std::int64_t kh = axes.h.tap(oh, h);
        for (std::int64_t ow = left; ow < right && kh >= 0; ++ow)
          if (const std::int64_t kw = axes.w.tap(ow, w); kw >= 0)
            *end++ = {((n * p.OH + oh) * p.OW + ow) * C, static_cast<std::int32_t>(kh * p.KW + kw)};
      }
      for_channels<T>(C, [&](auto d, std::int64_t c, std::int64_t count) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (const auto* tap = taps; tap != end; ++tap) {
          const auto mine = is_position(d, index + tap->from + c, count, tap->position);
          sum = hn::Add(sum, hn::IfThenElseZero(mine, load_columns(d, grad_out + tap->from + c, count)));
        }
        store_columns(sum, d, grad_in + ((n * p.H + h) * p.W + w) * C + c, count);
      });
    }
  });
}

// ---- averages ------------------------------------------------------------------------------------------------------

template <class T, class Axis>
void average_with(const Context& context, T* out, const T* in, const Axes<Axis>& axes, double windows) {
  const std::int64_t C = axes.channels, W = axes.w.in, OW = axes.w.out;
  for_rows(context, axes.images, axes.h.out, cost(OW * C, windows), [&](std::int64_t oh, std::int64_t n) HWY_ATTR {
    const std::int64_t top = axes.h.first(oh), bottom = axes.h.last(oh);
    for (std::int64_t ow = 0; ow < OW; ++ow) {
      const std::int64_t left = axes.w.first(ow), right = axes.w.last(ow);
      const T* const corner = in + ((n * axes.h.in + axes.h.at(oh, 0)) * W + axes.w.at(ow, 0)) * C;
      const auto divisor = static_cast<T>(axes.h.count(oh) * axes.w.count(ow));
      for_channels<T>(C, [&](auto d, std::int64_t c, std::int64_t count) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (std::int64_t kh = top; kh < bottom; ++kh)
          for (std::int64_t kw = left; kw < right; ++kw)
            sum = hn::Add(sum, load_columns(d, corner + (kh * W + kw) * C + c, count));
        store_columns(hn::Div(sum, hn::Set(d, divisor)), d, out + ((n * axes.h.out + oh) * OW + ow) * C + c, count);
      });
    }
  });
}

template <class T, class Axis>
void average_backward_with(const Context& context, T* grad_in, const T* grad_out, const Axes<Axis>& axes,
                           double windows) {
  const std::int64_t C = axes.channels, W = axes.w.in, OW = axes.w.out;
  for_rows(context, axes.images, axes.h.in, cost(W * C, windows), [&](std::int64_t h, std::int64_t n) HWY_ATTR {
    const std::int64_t top = axes.h.begin(h), bottom = axes.h.end(h);
    for (std::int64_t w = 0; w < W; ++w) {
      const std::int64_t left = axes.w.begin(w), right = axes.w.end(w);
      const auto divisor = [&](std::int64_t oh, std::int64_t ow) { return axes.h.count(oh) * axes.w.count(ow); };
      const std::int64_t first = top < bottom && left < right ? divisor(top, left) : 1;
      bool one = true;  // as a rule: then the sum is divided
      for (std::int64_t oh = top; oh < bottom; ++oh)
        for (std::int64_t ow = left; ow < right; ++ow) one = one && divisor(oh, ow) == first;
      for_channels<T>(C, [&](auto d, std::int64_t c, std::int64_t count) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (std::int64_t oh = top; oh < bottom; ++oh)
          for (std::int64_t ow = left; ow < right; ++ow) {
            const auto grad = load_columns(d, grad_out + ((n * axes.h.out + oh) * OW + ow) * C + c, count);
            sum = hn::Add(sum, one ? grad : hn::Div(grad, hn::Set(d, static_cast<T>(divisor(oh, ow)))));
          }
        if (one) sum = hn::Div(sum, hn::Set(d, static_cast<T>(first)));
        store_columns(sum, d, grad_in + ((n * axes.h.in + h) * W + w) * C + c, count);
      });
    }
  });
}

double windows_of(const Pool2d& p) { return static_cast<double>(p.KH * p.KW); }
double windows_of(const AdaptivePool2d& p) {
  return static_cast<double>(p.H * p.W) / static_cast<double>(std::max<std::int64_t>(1, p.OH * p.OW));
}
double overlaps_of(const Pool2d& p) { return 1 + windows_of(p) / static_cast<double>(p.stride_h * p.stride_w); }
double overlaps_of(const AdaptivePool2d&) { return 2; }

template <class T, class Pool>
void average(const Context& context, T* out, const T* in, const Pool& p) {
  average_with(context, out, in, axes_of(p), windows_of(p));
}
template <class T, class Pool>
void average_backward(const Context& context, T* grad_in, const T* grad_out, const Pool& p) {
  average_backward_with(context, grad_in, grad_out, axes_of(p), overlaps_of(p));
}

template <class T>
const RowPooling<T>& kernels() {
  static constexpr RowPooling<T> table{
      .max = max<T>,
      .max_backward = built::whole ? max_backward<T> : nullptr,
      .average = average<T, Pool2d>,
      .average_backward = built::whole ? average_backward<T, Pool2d> : nullptr,
      .adaptive = average<T, AdaptivePool2d>,
      .adaptive_backward = built::whole ? average_backward<T, AdaptivePool2d> : nullptr};
  return table;
}

const RowPooling<float>& kernels_float() { return kernels<float>(); }
const RowPooling<double>& kernels_double() { return kernels<double>(); }

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(row_pooling, kernels)

}  // namespace tern::vectorized
#endif
