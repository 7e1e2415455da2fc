#pragma once

#include "tern/kernels/conv.hpp"
#include "vectorized/cache.hpp"

namespace tern::vectorized {

inline bool has_stride(const kernels::Conv2d& shape) { return shape.stride_h != 1 || shape.stride_w != 1; }

/// A convolution of one group with stride s on both axes is one of stride 1 over squares of s x s pixels, whose
/// channels are [s, s, C], with kernels of ceil(K / s) taps. The first square begins pad positions before the image.
/// One of stride 1 stays as it is.
inline kernels::Conv2d folded(const kernels::Conv2d& shape) {
  kernels::Conv2d result = shape;
  if (!has_stride(shape)) return result;
  const std::int64_t side = shape.stride_h;
  result.C = side * side * shape.C;
  result.KH = divide_up(shape.KH, side);
  result.KW = divide_up(shape.KW, side);
  result.H = shape.OH + result.KH - 1;
  result.W = shape.OW + result.KW - 1;
  result.stride_h = result.stride_w = 1;
  result.pad_h = result.pad_w = 0;
  return result;
}

/// A convolution of images with channels last, with its arrays, as the forward pass and the gradient of x see it.
/// Channel counts are those of one group; `pixel` counts elements from one position to the next.
template <class T>
struct Correlation {
  std::int64_t N = 0, groups = 1, C = 0, O = 0, H = 0, W = 0, OH = 0, OW = 0, KH = 1, KW = 1;
  std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  T* y = nullptr;
  const T* x = nullptr;
  const T* saved = nullptr;  ///< lies as x and masks it: see Pixels
  std::int64_t y_pixel = 0, x_pixel = 0;
  const T* weight = nullptr;
  bool backward = false;  ///< weight is [groups * C, O, KH, KW], read with both axes of taps reversed; else [groups *
                          ///< O, C, KH, KW]
  const T* bias = nullptr;
  bool relu = false;
  const kernels::Conv2d* unfolded =
      nullptr;  ///< x and weight are those of this one, whose `folded` C, H, W, KH and KW are

  static Correlation forward(T* y, const T* x, const T* weight, const T* bias, const kernels::Conv2d& shape) {
    return {.N = shape.N,
            .groups = shape.groups,
            .C = shape.C / shape.groups,
            .O = shape.O / shape.groups,
            .H = shape.H,
            .W = shape.W,
            .OH = shape.OH,
            .OW = shape.OW,
            .KH = shape.KH,
            .KW = shape.KW,
            .stride_h = shape.stride_h,
            .stride_w = shape.stride_w,
            .pad_h = shape.pad_h,
            .pad_w = shape.pad_w,
            .dilation_h = shape.dilation_h,
            .dilation_w = shape.dilation_w,
            .y = y,
            .x = x,
            .y_pixel = shape.y_channels == 0 ? shape.O : shape.y_channels,
            .x_pixel = shape.C,
            .weight = weight,
            .bias = bias,
            .relu = shape.activation == kernels::Activation::relu};
  }

  /// The forward pass as one of stride 1.
  static Correlation forward_folded(T* y, const T* x, const T* weight, const T* bias, const kernels::Conv2d& shape) {
    Correlation result = forward(y, x, weight, bias, folded(shape));
    if (has_stride(shape)) result.unfolded = &shape;
    return result;
  }

  /// The gradient of x where the stride is 1. g: the gradient of y, or of what goes into relu when `saved` (y) masks
  /// it.
  static Correlation to_x(T* grad_x, const T* g, const T* saved, std::int64_t g_pixel, const T* weight,
                          const kernels::Conv2d& shape) {
    return {.N = shape.N,
            .groups = shape.groups,
            .C = shape.O / shape.groups,
            .O = shape.C / shape.groups,
            .H = shape.OH,
            .W = shape.OW,
            .OH = shape.H,
            .OW = shape.W,
            .KH = shape.KH,
            .KW = shape.KW,
            .pad_h = shape.dilation_h * (shape.KH - 1) - shape.pad_h,
            .pad_w = shape.dilation_w * (shape.KW - 1) - shape.pad_w,
            .dilation_h = shape.dilation_h,
            .dilation_w = shape.dilation_w,
            .y = grad_x,
            .x = g,
            .saved = saved,
            .y_pixel = shape.C,
            .x_pixel = g_pixel,
            .weight = weight,
            .backward = true};
  }
};

}  // namespace tern::vectorized
