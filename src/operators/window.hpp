#pragma once

#include <algorithm>
#include <optional>

#include "tern/core/error.hpp"
#include "tern/operators/conv.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

/// f(x), or of one example without the dimension of a batch, so of `rank` - 1 dimensions, what f makes of a batch of
/// it.
template <class F>
Tensor in_batch(const Tensor& x, int rank, F f) {
  return x.defined() && x.rank() == rank - 1 ? f(x.unsqueeze(0)).squeeze(0) : f(x);
}

/// x [N, C, H, W] with `value` below and to the right of it, and, where `start` is given, above and to the left.
inline Tensor pad_planes(const Tensor& x, Pair start, Pair end, Number value) {
  if (start.h + start.w + end.h + end.w == 0) return x;
  return pad(x, {{2, start.h, end.h}, {3, start.w, end.w}}, value);
}

/// What `padding` has beyond `other` on each side.
inline Pair beyond(Pair padding, Pair other) {
  return {std::max<std::int64_t>(0, padding.h - other.h), std::max<std::int64_t>(0, padding.w - other.w)};
}

/// How many windows of `kernel` positions fit along a side of `size` with `padding` before it and `end_padding` behind:
/// floor((size + padding + end_padding - dilation (kernel - 1) - 1) / stride) + 1, or, with `ceil_mode`, rounded up
/// without the windows that would start in the padding after the end.
inline std::int64_t window_count(const char* op, const char* side, std::int64_t size, std::int64_t kernel,
                                 std::int64_t stride, std::int64_t padding, std::int64_t end_padding,
                                 std::int64_t dilation, bool ceil_mode) {
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

}  // namespace tern::operators
