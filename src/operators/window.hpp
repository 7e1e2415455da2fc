#pragma once

#include <algorithm>
#include <optional>

#include "tern/core/error.hpp"
#include "tern/operators/conv.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

/// f(x); an example without a batch dimension, of `rank` - 1 dimensions, is passed as a batch of one.
template <class F>
Tensor in_batch(const Tensor& x, int rank, F f) {
  return x.defined() && x.rank() == rank - 1 ? f(x.unsqueeze(0)).squeeze(0) : f(x);
}

/// x [N, C, H, W] padded with `value` below and to the right and, if `start` is set, above and to the left.
inline Tensor pad_planes(const Tensor& x, Pair start, Pair end, Number value) {
  if (start.h + start.w + end.h + end.w == 0) return x;
  return pad(x, {{2, start.h, end.h}, {3, start.w, end.w}}, value);
}

/// By how much `padding` exceeds `other` on each side.
inline Pair beyond(Pair padding, Pair other) {
  return {std::max<std::int64_t>(0, padding.h - other.h), std::max<std::int64_t>(0, padding.w - other.w)};
}

/// Windows of `kernel` positions along one side, with `start` positions of padding before and `end` after it.
struct SideWindows {
  std::int64_t size, kernel, stride = 1, start = 0, end = 0, dilation = 1;
  bool ceil_mode = false;
};

/// Their number: floor((size + start + end - dilation (kernel - 1) - 1) / stride) + 1. With `ceil_mode` it is rounded
/// up, without windows that would start in the end padding.
inline std::int64_t window_count(const char* op, const char* side, const SideWindows& windows) {
  const auto& [size, kernel, stride, padding, end_padding, dilation, ceil_mode] = windows;
  const std::int64_t least = std::min(padding, end_padding), most = std::max(padding, end_padding);
  expects<ShapeError>(kernel >= 1 && stride >= 1 && least >= 0 && dilation >= 1, op, ": kernel ", kernel, ", stride ",
                      stride, ", padding ", least, ", dilation ", dilation, " along the ", side,
                      "; padding is at least 0, the others 1");
  constexpr std::int64_t bound = std::int64_t{1} << 31;  // keeps the arithmetic below from overflowing
  expects<ShapeError>(kernel < bound && stride < bound && most < bound && dilation < bound, op, ": kernel ", kernel,
                      ", stride ", stride, ", padding ", most, ", dilation ", dilation, " along the ", side,
                      " are beyond 2^31");
  expects<ShapeError>(size < bound << 30, op, ": a ", side, " of ", size, " is beyond 2^61");
  const std::int64_t span = dilation * (kernel - 1) + 1, room = size + padding + end_padding - span;
  expects<ShapeError>(room >= 0, op, ": a kernel of ", kernel, dilation == 1 ? "" : message(" dilated by ", dilation),
                      " does not fit the ", side, " of ", size, " with padding ", padding,
                      padding == end_padding ? "" : message(" and ", end_padding));
  std::int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (count - 1) * stride >= size + padding) --count;
  return count;
}

/// The same along the height and the width of planes.
struct Windows {
  Pair kernel, stride = 1, start = 0, end = 0, dilation = 1;
  bool ceil_mode = false;
};

inline Pair window_counts(const char* op, Pair size, const Windows& windows) {
  const auto& [kernel, stride, start, end, dilation, ceil_mode] = windows;
  return {window_count(op, "height", {size.h, kernel.h, stride.h, start.h, end.h, dilation.h, ceil_mode}),
          window_count(op, "width", {size.w, kernel.w, stride.w, start.w, end.w, dilation.w, ceil_mode})};
}

}  // namespace tern::operators
