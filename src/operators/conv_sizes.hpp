#pragma once
// The sizes of convolutions, for every operator that is one or has some inside.

#include "operators/window.hpp"

namespace tern::operators {

inline void check_groups(const char* op, std::int64_t in, std::int64_t out, std::int64_t groups) {
  expects<ShapeError>(groups >= 1 && in % groups == 0 && out % groups == 0, op, ": ", groups,
                      " groups do not divide the ", in, " input and ", out, " output channels");
}

/// `sizes` with the steps, the padding and the groups of `options`.
template <class Options>
kernels::Conv2d with_windows(kernels::Conv2d sizes, const Options& options) {
  sizes.stride_h = options.stride.h;
  sizes.stride_w = options.stride.w;
  sizes.pad_h = options.padding.h;
  sizes.pad_w = options.padding.w;
  sizes.dilation_h = options.dilation.h;
  sizes.dilation_w = options.dilation.w;
  sizes.groups = options.groups;
  return sizes;
}

/// A convolution of images [N, C, H, W] by `out` kernels of size `kernel`, whose groups are checked.
template <class Options>
kernels::Conv2d conv_sizes(const char* op, const Shape& in, std::int64_t out, Pair kernel, const Options& options) {
  const Pair counts = window_counts(op, {in[2], in[3]},
                                    {.kernel = kernel,
                                     .stride = options.stride,
                                     .start = options.padding,
                                     .end = options.padding,
                                     .dilation = options.dilation});
  return with_windows({.N = in[0],
                       .C = in[1],
                       .H = in[2],
                       .W = in[3],
                       .O = out,
                       .KH = kernel.h,
                       .KW = kernel.w,
                       .OH = counts.h,
                       .OW = counts.w},
                      options);
}

inline std::int64_t multiply_adds(const kernels::Conv2d& s) {
  return s.N * s.O * s.OH * s.OW * (s.C / s.groups) * s.KH * s.KW;
}

/// The order of images that the mode's convolutions of these sizes want.
kernels::Layout preferred_layout(const char* op, DType dtype, const kernels::Conv2d& sizes);

}  // namespace tern::operators
