#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/pooling_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/built.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/pooling_axes.hpp"
#include "vectorized/pooling_rows.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

/// Calls body(row of the image, image) for all rows; an image has `rows` rows.
template <class Body>
void for_rows(const Context& context, std::int64_t images, std::int64_t rows, double nanoseconds, const Body& body) {
  parallel_for(context, images * rows, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) body(item % rows, item / rows);
  });
}

/// Rough cost of `elements`, each in this many windows.
double cost(std::int64_t elements, double windows) { return static_cast<double>(elements) * (0.1 + 0.05 * windows); }

/// Positions of a row whose terms lie alike: what one writes is at `to`, what it reads at and behind `from`.
struct Strip {
  std::int64_t to, from, count, to_step, from_step;
};

/// Calls body(vector tag, vectors, to, from, elements) for the channels of a strip, up to `most` whole vectors at a
/// time. The last one overlaps the one before it: a part of a vector costs several times as much.
template <class T, int most, class Body>
HWY_INLINE void for_strip(Strip strip, std::int64_t channels, const Body& body) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t n = channels;
  if (strip.to_step == n && strip.from_step == n) n *= std::exchange(strip.count, 1);  // positions without gaps
  for (; strip.count > 0; --strip.count, strip.to += strip.to_step, strip.from += strip.from_step) {
    std::int64_t i = 0;
    for (; i + most * lanes <= n; i += most * lanes)
      body(d, std::integral_constant<int, most>(), strip.to + i, strip.from + i, lanes);
    for (; i < n; i += lanes) {
      const std::int64_t at = n < lanes ? 0 : std::min(i, n - lanes);
      body(d, std::integral_constant<int, 1>(), strip.to + at, strip.from + at, n - at);
    }
  }
}

/// What `count` adjacent vectors have come to: by recursion, so that each stays in registers.
template <template <class> class State, class D, int count>
struct States {
  State<D> own;
  States<State, D, count - 1> more;

  HWY_INLINE States(D d, std::int64_t first) : own(d, first), more(d, first) {}
  template <class T>
  HWY_INLINE void take(D d, const T* from, std::int64_t elements, auto position) {
    own.take(d, load_columns(d, from, elements), position);
    more.take(d, from + hn::Lanes(d), elements, position);
  }
  /// Calls visit(state, the place of its first element) for each vector.
  template <class Visit>
  HWY_INLINE void each(D d, std::int64_t place, const Visit& visit) const {
    visit(own, place);
    more.each(d, place + static_cast<std::int64_t>(hn::Lanes(d)), visit);
  }
};
template <template <class> class State, class D>
struct States<State, D, 0> {
  HWY_INLINE States(D /*d*/, std::int64_t /*first*/) {}
  template <class T>
  HWY_INLINE void take(D /*d*/, const T* /*from*/, std::int64_t /*elements*/, auto /*position*/) {}
  template <class Visit>
  HWY_INLINE void each(D /*d*/, std::int64_t /*place*/, const Visit& /*visit*/) const {}
};

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

/// The maximum where no value is NaN; otherwise, and for infinities of both signs, `sum` is NaN.
template <class D>
struct LargestNumber {
  hn::Vec<D> best, sum;
  HWY_INLINE LargestNumber(D d, std::int64_t /*first*/)
      : best(hn::Set(d, -std::numeric_limits<hn::TFromD<D>>::infinity())), sum(hn::Zero(d)) {}
  HWY_INLINE void take(D /*d*/, hn::Vec<D> value, auto /*position*/) {
    best = hn::Max(value, best);
    sum = hn::Add(sum, value);
  }
};
/// The same with the maximum's position.
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

/// The terms of a window whose rows are [top, bottom) and columns [left, right) of the whole one.
template <class Position>
Tap<Position>* taps_of(Tap<Position>* taps, const Range& rows, const Range& columns, const Pool2d& p) {
  for (std::int64_t kh = rows.first; kh < rows.last; ++kh)
    for (std::int64_t kw = columns.first; kw < columns.last; ++kw)
      *taps++ = {(kh * p.dilation_h * p.W + kw * p.dilation_w) * p.channels, static_cast<Position>(kh * p.KW + kw)};
  return taps;
}

/// By `Number` where it holds, else by `State`; `most` vectors at a time.
template <template <class> class Number, template <class> class State, int most, class T>
void max_by(const Context& context, T* out, std::uint8_t* index, const T* in, const Pool2d& p) {
  const auto axes = axes_of(p);
  const std::int64_t C = p.channels;
  for_rows(
      context, axes.images, p.OH, cost(p.OW * C, static_cast<double>(p.KH * p.KW)),
      [&](std::int64_t oh, std::int64_t n) HWY_ATTR {
        const Range rows{axes.h.first(oh), axes.h.last(oh)};
        const std::int64_t in_row = (n * p.H + axes.h.at(oh, 0)) * p.W, out_row = (n * p.OH + oh) * p.OW;
        Tap<T> taps[most_taps];
        for_outputs(axes.w, [&](std::int64_t ow, std::int64_t outputs) HWY_ATTR {
          const Range columns{axes.w.first(ow), axes.w.last(ow)};
          const Tap<T>* const end = taps_of(taps, rows, columns, p);
          const std::int64_t first = end == taps ? 0 : rows.first * p.KW + columns.first;
          const Strip strip{(out_row + ow) * C, (in_row + axes.w.at(ow, 0)) * C, outputs, C, p.stride_w * C};
          for_strip<T, most>(
              strip, C, [&](auto d, auto vectors, std::int64_t to, std::int64_t from, std::int64_t count) HWY_ATTR {
                using D = decltype(d);
                constexpr int together = decltype(vectors)::value;
                const auto store = [&](const auto& state, std::int64_t place) HWY_ATTR {
                  store_columns(largest_of(d, state), d, out + place, count);
                  if constexpr (requires { state.where; }) store_positions(d, state.where, index + place, count);
                };
                const auto visit = [&](auto states) HWY_ATTR {
                  for (const auto* tap = taps; tap != end; ++tap)
                    states.take(d, in + from + tap->from, count, tap->position);
                  return states;
                };
                const auto numbers = visit(States<Number, D, together>(d, first));
                auto sum = hn::Zero(d);
                numbers.each(d, to, [&](const auto& state, std::int64_t) HWY_ATTR { sum = hn::Add(sum, state.sum); });
                if (hn::AllFalse(d, hn::IsNaN(sum)))
                  numbers.each(d, to, store);
                else
                  visit(States<State, D, together>(d, first)).each(d, to, store);
              });
        });
      });
}
template <class T>
void max(const Context& context, T* out, std::uint8_t* index, const T* in, const Pool2d& p) {
  if (index == nullptr)
    max_by<LargestNumber, LargestState, 4>(context, out, index, in, p);
  else
    max_by<NumberState, MaxState, 2>(context, out, index, in, p);
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
    for_inputs(axes.w, {0, p.OW}, [&](std::int64_t w, std::int64_t inputs) HWY_ATTR {
      const std::int64_t left = axes.w.begin(w), right = axes.w.end(w);
      Tap<std::int32_t>* end = taps;
      for (std::int64_t oh = top; oh < bottom; ++oh) {
        const std::int64_t kh = axes.h.tap(oh, h);
        for (std::int64_t ow = left; ow < right && kh >= 0; ++ow)
          if (const std::int64_t kw = axes.w.tap(ow, w); kw >= 0)
            *end++ = {((oh - top) * p.OW + ow - left) * C, static_cast<std::int32_t>(kh * p.KW + kw)};
      }
      const Strip strip{((n * p.H + h) * p.W + w) * C, ((n * p.OH + top) * p.OW + left) * C, inputs, p.stride_w * C, C};
      for_strip<T, 1>(strip, C, [&](auto d, auto, std::int64_t to, std::int64_t from, std::int64_t count) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (const auto* tap = taps; tap != end; ++tap) {
          const auto mine = is_position(d, index + from + tap->from, count, tap->position);
          sum = hn::Add(sum, hn::IfThenElseZero(mine, load_columns(d, grad_out + from + tap->from, count)));
        }
        store_columns(sum, d, grad_in + to, count);
      });
    });
  });
}

// ---- averages ------------------------------------------------------------------------------------------------------

/// Rows and columns of positions that a sum covers.
struct Window {
  std::int64_t rows, columns, row_pitch, column_pitch;
};

/// out = sums of a window from each place of the strip on, divided; row by row.
template <class T>
HWY_INLINE void average_strip(T* out, const T* in, const Strip& strip, const Window& window, T divisor,
                              std::int64_t channels) {
  for_strip<T, 4>(strip, channels,
                  [&](auto d, auto vectors, std::int64_t to, std::int64_t from, std::int64_t count) HWY_ATTR {
                    States<SumState, decltype(d), decltype(vectors)::value> sums(d, 0);
                    for (std::int64_t i = 0; i < window.rows; ++i)
                      for (std::int64_t j = 0; j < window.columns; ++j)
                        sums.take(d, in + from + i * window.row_pitch + j * window.column_pitch, count, 0);
                    const auto by = hn::Set(d, divisor);
                    sums.each(d, to, [&](const auto& state, std::int64_t place) HWY_ATTR {
                      store_columns(hn::Div(state.sum, by), d, out + place, count);
                    });
                  });
}

template <class T, class Axis>
void average_with(const Context& context, T* out, const T* in, const Axes<Axis>& axes, double windows) {
  const std::int64_t C = axes.channels, W = axes.w.in, OW = axes.w.out;
  for_rows(context, axes.images, axes.h.out, cost(OW * C, windows), [&](std::int64_t oh, std::int64_t n) HWY_ATTR {
    const std::int64_t top = axes.h.first(oh), rows = axes.h.last(oh) - top;
    const std::int64_t in_row = (n * axes.h.in + axes.h.at(oh, top)) * W, out_row = (n * axes.h.out + oh) * OW;
    for_outputs(axes.w, [&](std::int64_t ow, std::int64_t outputs) HWY_ATTR {
      const std::int64_t left = axes.w.first(ow), columns = axes.w.last(ow) - left;
      average_strip(out, in, {(out_row + ow) * C, (in_row + axes.w.at(ow, left)) * C, outputs, C, axes.w.stride * C},
                    {rows, columns, W * C, C}, static_cast<T>(axes.h.count(oh) * axes.w.count(ow)), C);
    });
  });
}

/// Whether the divisors of [first, last) are the same.
template <class Axis>
bool same_counts(const Axis& axis, std::int64_t first, std::int64_t last) {
  for (std::int64_t o = first + 1; o < last; ++o)
    if (axis.count(o) != axis.count(first)) return false;
  return true;
}

template <class T, class Axis>
void average_backward_with(const Context& context, T* grad_in, const T* grad_out, const Axes<Axis>& axes,
                           double windows) {
  const std::int64_t C = axes.channels, W = axes.w.in, OW = axes.w.out;
  for_rows(context, axes.images, axes.h.in, cost(W * C, windows), [&](std::int64_t h, std::int64_t n) HWY_ATTR {
    const std::int64_t top = axes.h.begin(h), bottom = axes.h.end(h);
    const bool same_rows = same_counts(axes.h, top, bottom);
    for_inputs(axes.w, axes.w.whole(), [&](std::int64_t w, std::int64_t inputs) HWY_ATTR {
      const std::int64_t left = axes.w.begin(w), right = axes.w.end(w);
      const Strip strip{((n * axes.h.in + h) * W + w) * C, ((n * axes.h.out + top) * OW + left) * C, inputs,
                        axes.w.stride * C, C};
      const auto divisor = [&](std::int64_t oh, std::int64_t ow) {
        return static_cast<T>(axes.h.count(oh) * axes.w.count(ow));
      };
      if (same_rows && same_counts(axes.w, left, right))  // as a rule: then the sum is divided
        return average_strip(grad_in, grad_out, strip,
                             {std::max<std::int64_t>(bottom - top, 0), right - left, OW * C, C},
                             top < bottom && left < right ? divisor(top, left) : T(1), C);
      for_strip<T, 1>(strip, C, [&](auto d, auto, std::int64_t to, std::int64_t from, std::int64_t count) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (std::int64_t oh = top; oh < bottom; ++oh)
          for (std::int64_t ow = left; ow < right; ++ow) {
            const auto grad = load_columns(d, grad_out + from + ((oh - top) * OW + ow - left) * C, count);
            sum = hn::Add(sum, hn::Div(grad, hn::Set(d, divisor(oh, ow))));
          }
        store_columns(sum, d, grad_in + to, count);
      });
    });
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
