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

/// The windows that the options of a pooling describe; `end_padding` is left to the caller.
template <class Options>
Windows windows_of(Pair kernel, const Options& options) {
  Windows windows{.kernel = kernel,
                  .stride = options.stride.value_or(kernel),
                  .start = options.padding,
                  .end = options.padding,
                  .ceil_mode = options.ceil_mode};
  if constexpr (requires { options.dilation; }) windows.dilation = options.dilation;
  return windows;
}

/// The windows over the planes of x [N, C, H, W], padded alike on both sides; `channels` stays 0. Throws ShapeError.
inline kernels::Pool2d pool_sizes(const char* op, const Tensor& x, const Windows& windows) {
  const auto& [kernel, stride, padding, end, dilation, ceil_mode] = windows;
  check_rank(op, "input", x, 4);
  check_padding(op, kernel, padding);
  const Shape& in = x.shape();
  const Pair out = window_counts(op, {in[2], in[3]}, windows);
  return {.planes = in[0] * in[1],
          .H = in[2],
          .W = in[3],
          .OH = out.h,
          .OW = out.w,
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
