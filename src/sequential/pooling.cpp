#include <algorithm>
#include <functional>
#include <limits>

#include "functions.hpp"
#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::AdaptivePool2d;
using kernels::Pool2d;

/// The index of position p in a plane of `area` positions.
template <class Pool>
std::int64_t plane_place(const Pool& shape, std::int64_t plane, std::int64_t area, std::int64_t p) {
  return (plane / shape.channels * area + p) * shape.channels + plane % shape.channels;
}

template <class T>
void max_pool2d(Context&, T* out, std::uint8_t* index, const T* in, const Pool2d& shape) {
  for (std::int64_t plane = 0; plane < shape.planes; ++plane)
    for (std::int64_t oh = 0; oh < shape.OH; ++oh)
      for (std::int64_t ow = 0; ow < shape.OW; ++ow) {
        Scalar<T> best = -std::numeric_limits<Scalar<T>>::infinity();
        std::int64_t winner = -1;
        for (std::int64_t kh = 0; kh < shape.KH; ++kh)
          for (std::int64_t kw = 0; kw < shape.KW; ++kw) {
            const std::int64_t h = oh * shape.stride_h - shape.pad_h + kh * shape.dilation_h;
            const std::int64_t w = ow * shape.stride_w - shape.pad_w + kw * shape.dilation_w;
            if (h < 0 || h >= shape.H || w < 0 || w >= shape.W) continue;
            const Scalar<T> x = load(in[plane_place(shape, plane, shape.H * shape.W, h * shape.W + w)]);
            if (winner < 0 || wins(x, best, std::greater())) {  // an element wins over the padding, even -infinity
              best = x;
              winner = kh * shape.KW + kw;
            }
          }
        const std::int64_t i = plane_place(shape, plane, shape.OH * shape.OW, oh * shape.OW + ow);
        out[i] = store<T>(best);
        if (index != nullptr) index[i] = static_cast<std::uint8_t>(std::max<std::int64_t>(winner, 0));
      }
}

template <class T>
void max_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const std::uint8_t* index,
                         const Pool2d& shape) {
  Sums<Scalar<T>> sums(context, shape.planes * shape.H * shape.W);
  for (std::int64_t plane = 0; plane < shape.planes; ++plane)
    for (std::int64_t oh = 0; oh < shape.OH; ++oh)
      for (std::int64_t ow = 0; ow < shape.OW; ++ow) {
        const std::int64_t i = plane_place(shape, plane, shape.OH * shape.OW, oh * shape.OW + ow);
        const std::int64_t h = oh * shape.stride_h - shape.pad_h + index[i] / shape.KW * shape.dilation_h;
        const std::int64_t w = ow * shape.stride_w - shape.pad_w + index[i] % shape.KW * shape.dilation_w;
        if (h < 0 || h >= shape.H || w < 0 || w >= shape.W) continue;  // a window that is only padding
        sums[plane_place(shape, plane, shape.H * shape.W, h * shape.W + w)] += load(grad_out[i]);
      }
  sums.round_to(grad_in);
}

/// The part of a plane that one average covers, and the divisor of its sum.
struct Window {
  std::int64_t top, bottom, left, right;  // bottom and right are exclusive
  std::int64_t divisor;
};

Window window_of(const Pool2d& shape, std::int64_t oh, std::int64_t ow) {
  const std::int64_t top = oh * shape.stride_h - shape.pad_h, left = ow * shape.stride_w - shape.pad_w;
  const std::int64_t bottom = std::min(top + shape.KH, shape.H + shape.pad_h);
  const std::int64_t right = std::min(left + shape.KW, shape.W + shape.pad_w);
  Window window{std::max<std::int64_t>(top, 0), std::min(bottom, shape.H), std::max<std::int64_t>(left, 0),
                std::min(right, shape.W), (bottom - top) * (right - left)};
  if (!shape.count_include_pad) window.divisor = (window.bottom - window.top) * (window.right - window.left);
  return window;
}

Window window_of(const AdaptivePool2d& shape, std::int64_t oh, std::int64_t ow) {
  Window window{oh * shape.H / shape.OH, ((oh + 1) * shape.H + shape.OH - 1) / shape.OH, ow * shape.W / shape.OW,
                ((ow + 1) * shape.W + shape.OW - 1) / shape.OW, 0};
  window.divisor = (window.bottom - window.top) * (window.right - window.left);
  return window;
}

template <class T, class Pool>
void average(T* out, const T* in, const Pool& shape) {
  for (std::int64_t plane = 0; plane < shape.planes; ++plane)
    for (std::int64_t oh = 0; oh < shape.OH; ++oh)
      for (std::int64_t ow = 0; ow < shape.OW; ++ow) {
        const Window window = window_of(shape, oh, ow);
        double sum = 0;  // as in reduction.cpp: one window may be the whole plane
        for (std::int64_t h = window.top; h < window.bottom; ++h)
          for (std::int64_t w = window.left; w < window.right; ++w)
            sum += load(in[plane_place(shape, plane, shape.H * shape.W, h * shape.W + w)]);
        out[plane_place(shape, plane, shape.OH * shape.OW, oh * shape.OW + ow)] =
            store<T>(sum / static_cast<double>(window.divisor));
      }
}

template <class T, class Pool>
void average_backward(Context& context, T* grad_in, const T* grad_out, const Pool& shape) {
  Sums<Scalar<T>> sums(context, shape.planes * shape.H * shape.W);
  for (std::int64_t plane = 0; plane < shape.planes; ++plane)
    for (std::int64_t oh = 0; oh < shape.OH; ++oh)
      for (std::int64_t ow = 0; ow < shape.OW; ++ow) {
        const Window window = window_of(shape, oh, ow);
        const std::int64_t i = plane_place(shape, plane, shape.OH * shape.OW, oh * shape.OW + ow);
        const Scalar<T> share = load(grad_out[i]) / static_cast<Scalar<T>>(window.divisor);
        for (std::int64_t h = window.top; h < window.bottom; ++h)
          for (std::int64_t w = window.left; w < window.right; ++w)
            sums[plane_place(shape, plane, shape.H * shape.W, h * shape.W + w)] += share;
      }
  sums.round_to(grad_in);
}

template <class T>
void avg_pool2d(Context&, T* out, const T* in, const Pool2d& shape) {
  average(out, in, shape);
}

template <class T>
void avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const Pool2d& shape) {
  average_backward(context, grad_in, grad_out, shape);
}

template <class T>
void adaptive_avg_pool2d(Context&, T* out, const T* in, const AdaptivePool2d& shape) {
  average(out, in, shape);
}

template <class T>
void adaptive_avg_pool2d_backward(Context& context, T* grad_in, const T* grad_out, const AdaptivePool2d& shape) {
  average_backward(context, grad_in, grad_out, shape);
}

}  // namespace

template <class T>
kernels::Pooling<T> pooling() {
  return {.max_pool2d = max_pool2d<T>,
          .max_pool2d_backward = max_pool2d_backward<T>,
          .avg_pool2d = avg_pool2d<T>,
          .avg_pool2d_backward = avg_pool2d_backward<T>,
          .adaptive_avg_pool2d = adaptive_avg_pool2d<T>,
          .adaptive_avg_pool2d_backward = adaptive_avg_pool2d_backward<T>};
}
template kernels::Pooling<float> pooling<float>();
template kernels::Pooling<double> pooling<double>();
template kernels::Pooling<BFloat16> pooling<BFloat16>();
template kernels::Pooling<Float16> pooling<Float16>();

}  // namespace tern::sequential
