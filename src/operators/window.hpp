#pragma once

#include "tern/core/error.hpp"

namespace tern::operators {

/// How many windows of `kernel` positions fit along a side of `size`:
/// floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, or, with `ceil_mode`, rounded up without the
/// windows that would start in the padding after the end.
inline std::int64_t window_count(const char* op, const char* side, std::int64_t size, std::int64_t kernel,
                                 std::int64_t stride, std::int64_t padding, std::int64_t dilation, bool ceil_mode) {
  expects<ShapeError>(kernel >= 1 && stride >= 1 && padding >= 0 && dilation >= 1, op, ": kernel ", kernel, ", stride ",
                      stride, ", padding ", padding, ", dilation ", dilation, " along the ", side,
                      "; padding is at least 0, the others 1");
  constexpr std::int64_t bound = std::int64_t{1} << 31;  // keeps the arithmetic below from overflowing
  expects<ShapeError>(kernel < bound && stride < bound && padding < bound && dilation < bound, op, ": kernel ", kernel,
                      ", stride ", stride, ", padding ", padding, ", dilation ", dilation, " along the ", side,
                      " are beyond 2^31");
  expects<ShapeError>(size < bound << 30, op, ": a ", side, " of ", size, " is beyond 2^61");
  const std::int64_t span = dilation * (kernel - 1) + 1, room = size + 2 * padding - span;
  expects<ShapeError>(room >= 0, op, ": a kernel of ", kernel, dilation == 1 ? "" : message(" dilated by ", dilation),
                      " does not fit the ", side, " of ", size, " with padding ", padding);
  std::int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (count - 1) * stride >= size + padding) --count;
  return count;
}

}  // namespace tern::operators
