#pragma once
// Sizes and checks that all poolings share.

#include "operators/support.hpp"
#include "operators/window.hpp"
#include "tern/kernels/pooling.hpp"

namespace tern::operators {

inline void check_padding(const char* op, Pair kernel, Pair padding) {
  expects<ShapeError>(padding.h <= kernel.h / 2 && padding.w <= kernel.w / 2, op, ": padding ", padding.h, "x",
                      padding.w, " is more than half the kernel of ", kernel.h, "x", kernel.w);
}

/// The windows over the planes of x [N, C, H, W], padded alike on both sides; `channels` stays 0. Throws ShapeError.
inline kernels::Pool2d pool_sizes(const char* op, const Tensor& x, Pair kernel, Pair stride, Pair padding,
                                  Pair dilation, bool ceil_mode) {
  check_rank(op, "input", x, 4);
  check_padding(op, kernel, padding);
  const Shape& in = x.shape();
  return {.planes = in[0] * in[1],
          .H = in[2],
          .W = in[3],
          .OH = window_count(op, "height", in[2], kernel.h, stride.h, padding.h, padding.h, dilation.h, ceil_mode),
          .OW = window_count(op, "width", in[3], kernel.w, stride.w, padding.w, padding.w, dilation.w, ceil_mode),
          .KH = kernel.h,
          .KW = kernel.w,
          .stride_h = stride.h,
          .stride_w = stride.w,
          .pad_h = padding.h,
          .pad_w = padding.w,
          .dilation_h = dilation.h,
          .dilation_w = dilation.w};
}

}  // namespace tern::operators
