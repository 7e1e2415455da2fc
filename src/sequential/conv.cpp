#include <algorithm>

#include "functions.hpp"
#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::Conv2d;

/// The index of y[n, o, p] for a position p = oh OW + ow.
std::int64_t output(const Conv2d& shape, std::int64_t n, std::int64_t o, std::int64_t p) {
  const std::int64_t area = shape.OH * shape.OW;
  if (shape.layout == kernels::Layout::channels_first) return (n * shape.O + o) * area + p;
  return (n * area + p) * (shape.y_channels > 0 ? shape.y_channels : shape.O) + o;
}

/// Calls visit(i, n, o, oh, ow) for every output y[i] = y[n, o, oh, ow].
template <class Visit>
void for_each_output(const Conv2d& shape, Visit visit) {
  for (std::int64_t n = 0; n < shape.N; ++n)
    for (std::int64_t o = 0; o < shape.O; ++o)
      for (std::int64_t oh = 0; oh < shape.OH; ++oh)
        for (std::int64_t ow = 0; ow < shape.OW; ++ow) visit(output(shape, n, o, oh * shape.OW + ow), n, o, oh, ow);
}

/// Calls visit(j, k) for every product x[j] * weight[k] in the sum of output [n, o, oh, ow]; in the padding, whose
/// zeros are multiplied like any number, j is -1.
template <class Visit>
void for_each_product(const Conv2d& shape, std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow,
                      Visit visit) {
  const std::int64_t channels = shape.C / shape.groups;  // that each output sees
  const std::int64_t group = o / (shape.O / shape.groups);
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t kh = 0; kh < shape.KH; ++kh)
      for (std::int64_t kw = 0; kw < shape.KW; ++kw) {
        const std::int64_t h = oh * shape.stride_h - shape.pad_h + kh * shape.dilation_h;
        const std::int64_t w = ow * shape.stride_w - shape.pad_w + kw * shape.dilation_w;
        const bool inside = h >= 0 && h < shape.H && w >= 0 && w < shape.W;
        visit(inside ? place(shape.layout, shape.C, shape.H * shape.W, n, group * channels + c, h * shape.W + w) : -1,
              ((o * channels + c) * shape.KH + kh) * shape.KW + kw);
      }
}

kernels::Layout layout(const Context&, const Conv2d&) { return kernels::Layout::channels_first; }

/// An element of x, or of its padding.
template <class T>
double element(const T* x, std::int64_t j) {
  return j < 0 ? 0 : double{load(x[j])};
}

template <class T>
void conv2d(Context&, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape) {
  for_each_output(shape, [&](std::int64_t i, std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow) {
    double sum = bias == nullptr ? 0 : double{load(bias[o])};
    for_each_product(shape, n, o, oh, ow,
                     [&](std::int64_t j, std::int64_t k) { sum += element(x, j) * load(weight[k]); });
    y[i] = store<T>(activate(shape.activation, static_cast<Scalar<T>>(sum)));
  });
}

template <class T>
void conv2d_add(Context& context, T* y, const T* x, const T* weight, const T* bias, const T* added,
                const Conv2d& shape) {
  Conv2d plain = shape;
  plain.activation = kernels::Activation::none;
  conv2d(context, y, x, weight, bias, plain);
  for (std::int64_t i = 0; i < shape.N * shape.O * shape.OH * shape.OW; ++i)
    y[i] = store<T>(activate(shape.activation, load(y[i]) + load(added[i])));
}

template <class T>
void conv2d_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const Conv2d& shape) {
  if (grad_x != nullptr) {
    Sums<double> sums(context, shape.N * shape.C * shape.H * shape.W);
    for_each_output(shape, [&](std::int64_t i, std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow) {
      const double g = activate_gradient(shape.activation, grad_y, y, i);
      for_each_product(shape, n, o, oh, ow, [&](std::int64_t j, std::int64_t k) {
        if (j >= 0) sums[j] += g * load(weight[k]);
      });
    });
    sums.round_to(grad_x);
  }

  if (grad_weight != nullptr) {
    Sums<double> sums(context, shape.O * (shape.C / shape.groups) * shape.KH * shape.KW);
    for_each_output(shape, [&](std::int64_t i, std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow) {
      const double g = activate_gradient(shape.activation, grad_y, y, i);
      for_each_product(shape, n, o, oh, ow, [&](std::int64_t j, std::int64_t k) { sums[k] += g * element(x, j); });
    });
    sums.round_to(grad_weight);
  }

  if (grad_bias != nullptr) {
    const std::int64_t area = shape.OH * shape.OW;
    for (std::int64_t o = 0; o < shape.O; ++o) {
      double sum = 0;  // as in reduction.cpp
      for (std::int64_t n = 0; n < shape.N; ++n)
        for (std::int64_t p = 0; p < area; ++p)
          sum += activate_gradient(shape.activation, grad_y, y, output(shape, n, o, p));
      grad_bias[o] = store<T>(sum);
    }
  }
}

// ---- and the largest of each 2 x 2 outputs: what a verifier compares other modes with ----

bool fuses_max_pool2d(const Context&, const Conv2d&) { return false; }
bool fuses_inverted_residual(const Context&, const kernels::InvertedResidual&) { return false; }

kernels::Pool2d pool_of(const Conv2d& shape) {
  return {.planes = shape.N * shape.O,
          .H = shape.OH,
          .W = shape.OW,
          .OH = shape.OH / 2,
          .OW = shape.OW / 2,
          .KH = 2,
          .KW = 2,
          .stride_h = 2,
          .stride_w = 2,
          .channels = shape.layout == kernels::Layout::channels_last ? shape.O : 1};
}

template <class T>
void conv2d_max_pool2d(Context& context, T* y, std::uint8_t* index, const T* x, const T* weight, const T* bias,
                       const Conv2d& shape) {
  const Scratch whole(context, static_cast<std::size_t>(shape.N * shape.O * shape.OH * shape.OW) * sizeof(T));
  conv2d(context, whole.as<T>(), x, weight, bias, shape);
  pooling<T>().max_pool2d(context, y, index, whole.as<T>(), pool_of(shape));
}

template <class T>
void conv2d_max_pool2d_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y,
                                const std::uint8_t* index, const T* x, const T* weight, const T* y,
                                const Conv2d& shape) {
  const kernels::Pool2d pool = pool_of(shape);
  const std::int64_t pooled = pool.planes * pool.OH * pool.OW;
  const Scratch through(context, static_cast<std::size_t>(pooled) * sizeof(T));
  for (std::int64_t i = 0; i < pooled; ++i)
    through.as<T>()[i] = store<T>(activate_gradient(shape.activation, grad_y, y, i));
  const Scratch whole(context, static_cast<std::size_t>(pool.planes * pool.H * pool.W) * sizeof(T));
  pooling<T>().max_pool2d_backward(context, whole.as<T>(), through.as<T>(), index, pool);
  Conv2d plain = shape;
  plain.activation = kernels::Activation::none;
  conv2d_backward<T>(context, grad_x, grad_weight, grad_bias, whole.as<T>(), x, weight, nullptr, plain);
}

}  // namespace

template <class T>
kernels::Conv<T> conv() {
  return {.layout = layout,
          .conv2d = conv2d<T>,
          .conv2d_add = conv2d_add<T>,
          .conv2d_backward = conv2d_backward<T>,
          .fuses_max_pool2d = fuses_max_pool2d,
          .conv2d_max_pool2d = conv2d_max_pool2d<T>,
          .conv2d_max_pool2d_backward = conv2d_max_pool2d_backward<T>,
          .fuses_inverted_residual = fuses_inverted_residual,
          .inverted_residual = kernels::absent};
}
template kernels::Conv<float> conv<float>();
template kernels::Conv<double> conv<double>();
template kernels::Conv<BFloat16> conv<BFloat16>();
template kernels::Conv<Float16> conv<Float16>();

}  // namespace tern::sequential
