// The windows of pooling, a vector of adjacent outputs at a time; compiled once per instruction set (see targets.hpp).

#if defined(TERN_VECTORIZED_WINDOWS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_WINDOWS_HPP
#undef TERN_VECTORIZED_WINDOWS_HPP
#else
#define TERN_VECTORIZED_WINDOWS_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tern/kernels/pooling.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using kernels::Pool2d;

/// a / b of no negative numbers; the usual strides and dilations without a division.
inline std::int64_t quotient(std::int64_t a, std::int64_t b) { return b == 1 ? a : b == 2 ? a / 2 : a / b; }

/// The rows of the window that are inside the plane: [first, last) of 0 ... KH.
struct KernelRows {
  std::int64_t first, last;
};
inline KernelRows kernel_rows(std::int64_t origin, std::int64_t K, std::int64_t dilation, std::int64_t size) {
  const std::int64_t first = origin >= 0 ? 0 : quotient(-origin + dilation - 1, dilation);
  const std::int64_t last = origin >= size ? 0 : std::min(K, quotient(size - 1 - origin, dilation) + 1);
  return {std::min(first, last), last};
}

/// The outputs [first, last) of a row whose windows have no column in the padding.
struct Interior {
  std::int64_t first, last;
  explicit Interior(const Pool2d& p) {
    first = std::min(p.OW, (p.pad_w + p.stride_w - 1) / p.stride_w);
    const std::int64_t room = p.W - 1 - (p.KW - 1) * p.dilation_w + p.pad_w;  // of the last window's left edge
    last = room < 0 ? first : std::clamp(room / p.stride_w + 1, first, p.OW);
  }
};

/// Even and odd elements of two vectors' worth from `in`.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void load_pairs(D d, const T* in, hn::Vec<D>& even, hn::Vec<D>& odd) {
#if HWY_TARGET == HWY_SCALAR
  hn::LoadInterleaved2(d, in, even, odd);
#else
  const auto low = hn::LoadU(d, in), high = hn::LoadU(d, in + hn::Lanes(d));
  even = hn::ConcatEven(d, high, low);
  odd = hn::ConcatOdd(d, high, low);
#endif
}

/// 0, step, 2 step, ...
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> multiples(D d, std::int64_t step) {
  HWY_ALIGN T all[hn::MaxLanes(D{})];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) all[i] = static_cast<T>(step * static_cast<std::int64_t>(i));
  return hn::Load(d, all);
}

/// Passes the window of each lane, in row order, to `state`: lane i starts at from[i * stride]. 0: any stride.
template <int stride, class D, class State, class T = hn::TFromD<D>>
HWY_INLINE void visit_window(D d, const T* from, const KernelRows& rows, const Pool2d& p, State& state) {
  hn::Vec<D> even, odd;
  for (std::int64_t kh = rows.first; kh < rows.last; ++kh) {
    const T* row = from + kh * p.dilation_h * p.W;
    if constexpr (stride == 0) {
      const hn::RebindToSigned<D> integers;
      const auto places = multiples(integers, p.stride_w);
      for (std::int64_t kw = 0; kw < p.KW; ++kw)
        state.take(d, hn::GatherIndex(d, row + kw * p.dilation_w, places), kh * p.KW + kw);
    } else if (stride == 1) {
      for (std::int64_t kw = 0; kw < p.KW; ++kw) state.take(d, hn::LoadU(d, row + kw * p.dilation_w), kh * p.KW + kw);
    } else if (p.dilation_w == 1) {
      for (std::int64_t kw = 0; kw < p.KW; kw += 2) {
        load_pairs(d, row + kw, even, odd);
        state.take(d, even, kh * p.KW + kw);
        if (kw + 1 < p.KW) state.take(d, odd, kh * p.KW + kw + 1);
      }
    } else {
      for (std::int64_t kw = 0; kw < p.KW; ++kw) {
        load_pairs(d, row + kw * p.dilation_w, even, odd);
        state.take(d, even, kh * p.KW + kw);
      }
    }
  }
}

/// The same for 2 x 2 windows with stride 2, the most frequent ones.
template <class D, class State, class T = hn::TFromD<D>>
HWY_INLINE void visit_two_by_two(D d, const T* from, const Pool2d& p, State& state) {
  hn::Vec<D> even, odd;
  load_pairs(d, from, even, odd);
  state.take(d, even, 0);
  state.take(d, odd, 1);
  load_pairs(d, from + p.W, even, odd);
  state.take(d, even, 2);
  state.take(d, odd, 3);
}

inline bool is_two_by_two(const Pool2d& p) {
  return p.KH == 2 && p.KW == 2 && p.stride_h == 2 && p.stride_w == 2 && p.dilation_h == 1 && p.dilation_w == 1;
}

/// No padding, and no window hangs over an edge.
inline bool is_side_by_side(const Pool2d& p) {
  return is_two_by_two(p) && p.pad_h == 0 && p.pad_w == 0 && 2 * p.OH <= p.H && 2 * p.OW <= p.W;
}

/// The maximum and its position, which T represents exactly.
template <class D>
struct MaxState {
  hn::Vec<D> best, where;
  HWY_INLINE MaxState(D d, std::int64_t first)
      : best(hn::Set(d, -std::numeric_limits<hn::TFromD<D>>::infinity())),
        where(hn::Set(d, static_cast<hn::TFromD<D>>(first))) {}
  HWY_INLINE void take(D d, hn::Vec<D> value, auto position) {
    const auto stays = hn::Or(hn::Le(value, best), hn::IsNaN(best));
    best = hn::IfThenElse(stays, best, value);
    where = hn::IfThenElse(stays, where, hn::Set(d, static_cast<hn::TFromD<D>>(position)));
  }
};

/// The maximum alone, for inference. Of equal zeros the first, of NaN any.
template <class D>
struct LargestState {
  hn::Vec<D> best;
  hn::Mask<D> nan;
  HWY_INLINE LargestState(D d, std::int64_t /*first*/)
      : best(hn::Set(d, -std::numeric_limits<hn::TFromD<D>>::infinity())), nan(hn::IsNaN(hn::Zero(d))) {}
  HWY_INLINE void take(D /*d*/, hn::Vec<D> value, auto /*position*/) {
    best = hn::Max(value, best);
    nan = hn::Or(nan, hn::IsNaN(value));
  }
};
/// What a state came to.
template <class D, class State>
HWY_INLINE hn::Vec<D> largest_of(D /*d*/, const State& state) {
  return state.best;
}
template <class D>
HWY_INLINE hn::Vec<D> largest_of(D d, const LargestState<D>& state) {
  return hn::IfThenElse(state.nan, hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN()), state.best);
}

template <class D>
struct SumState {
  hn::Vec<D> sum;
  HWY_INLINE SumState(D d, std::int64_t /*first*/) : sum(hn::Zero(d)) {}
  HWY_INLINE void take(D /*d*/, hn::Vec<D> value, std::int64_t /*position*/) { sum = hn::Add(sum, value); }
};

/// Positions to and from the bytes of `index`.
template <class D>
HWY_INLINE auto position_bytes(D /*d*/, hn::Vec<D> where) {
  const hn::Rebind<std::int32_t, D> words;
  const hn::Rebind<std::uint8_t, D> bytes;
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return hn::DemoteTo(bytes, hn::ConvertTo(words, where));
  else
    return hn::DemoteTo(bytes, hn::DemoteTo(words, where));
}
template <class D>
HWY_INLINE hn::Vec<D> positions_of(D d, const std::uint8_t* index) {
  const hn::Rebind<std::int32_t, D> words;
  const hn::Rebind<std::uint8_t, D> bytes;
  const auto promoted = hn::PromoteTo(words, hn::LoadU(bytes, index));
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return hn::ConvertTo(d, promoted);
  else
    return hn::PromoteTo(d, promoted);
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
