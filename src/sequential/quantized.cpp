#include <algorithm>
#include <cmath>

#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::AdaptivePool2d;
using kernels::Conv2d;
using kernels::Pool2d;
using kernels::QuantizedImages;
using kernels::Rescale;

float bounded(float t, const Rescale& rescale) {
  t = t > rescale.low ? t : rescale.low;
  return t < rescale.high ? t : rescale.high;
}

std::uint8_t stored(float t, const Rescale& rescale) {
  return static_cast<std::uint8_t>(static_cast<std::int32_t>(std::nearbyint(bounded(t, rescale))) + rescale.zero);
}

/// The number that a stored one is worth, in units of the result.
float worth(std::uint8_t stored, std::int32_t zero, float scale) {
  return static_cast<float>(static_cast<std::int32_t>(stored) - zero) * scale;
}

void quantize(Context&, std::uint8_t* out, const float* in, const QuantizedImages& images, const Rescale& rescale) {
  for (std::int64_t n = 0; n < images.N; ++n)
    for (std::int64_t c = 0; c < images.C; ++c)
      for (std::int64_t p = 0; p < images.P; ++p)
        out[(n * images.P + p) * images.C + c] =
            stored(in[(n * images.C + c) * images.P + p] * rescale.x_scale, rescale);
}

void dequantize(Context&, float* out, const std::uint8_t* in, const QuantizedImages& images, const Rescale& rescale) {
  for (std::int64_t n = 0; n < images.N; ++n)
    for (std::int64_t c = 0; c < images.C; ++c)
      for (std::int64_t p = 0; p < images.P; ++p)
        out[(n * images.C + c) * images.P + p] =
            worth(in[(n * images.P + p) * images.C + c], rescale.x_zero, rescale.x_scale);
}

/// Calls use(sum, i, o) for each output of the convolution: i is its place, o its channel.
template <class Use>
void for_each_sum(const std::uint8_t* x, const std::int8_t* weight, const std::int32_t* bias, const Conv2d& s,
                  std::int32_t x_zero, Use&& use) {
  const std::int64_t inputs = s.C / s.groups, outputs = s.O / s.groups;
  const std::int64_t pitch = s.y_channels == 0 ? s.O : s.y_channels;
  for (std::int64_t position = 0; position < s.N * s.OH * s.OW; ++position)
    for (std::int64_t o = 0; o < s.O; ++o) {
      const std::int64_t n = position / (s.OH * s.OW), oh = position / s.OW % s.OH, ow = position % s.OW;
      auto sum = static_cast<std::uint32_t>(bias[o]);
      for (std::int64_t kh = 0; kh < s.KH; ++kh)
        for (std::int64_t kw = 0; kw < s.KW; ++kw) {
          const std::int64_t h = oh * s.stride_h - s.pad_h + kh * s.dilation_h;
          const std::int64_t w = ow * s.stride_w - s.pad_w + kw * s.dilation_w;
          const bool inside = h >= 0 && h < s.H && w >= 0 && w < s.W;
          for (std::int64_t c = 0; c < inputs; ++c) {
            const std::int32_t number = inside ? x[((n * s.H + h) * s.W + w) * s.C + o / outputs * inputs + c] : x_zero;
            sum += static_cast<std::uint32_t>(number * weight[((o * s.KH + kh) * s.KW + kw) * inputs + c]);
          }
        }
      use(static_cast<float>(static_cast<std::int32_t>(sum)), position * pitch + o, o);
    }
}

void conv2d(Context&, std::uint8_t* y, const std::uint8_t* x, const std::int8_t* weight, const std::int32_t* bias,
            const float* scale, const std::uint8_t* other, const Conv2d& sizes, const Rescale& rescale) {
  for_each_sum(x, weight, bias, sizes, rescale.x_zero, [&](float sum, std::int64_t i, std::int64_t o) {
    float t = sum * scale[o];
    if (other != nullptr) t += worth(other[i], rescale.other_zero, rescale.other_scale);
    y[i] = stored(t, rescale);
  });
}

void conv2d_float(Context&, float* y, const std::uint8_t* x, const std::int8_t* weight, const std::int32_t* bias,
                  const float* scale, const Conv2d& sizes, const Rescale& rescale) {
  for_each_sum(x, weight, bias, sizes, rescale.x_zero,
               [&](float sum, std::int64_t i, std::int64_t o) { y[i] = bounded(sum * scale[o], rescale); });
}

void add(Context&, std::uint8_t* out, const std::uint8_t* a, const std::uint8_t* b, std::int64_t n,
         const Rescale& rescale) {
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = stored(worth(a[i], rescale.x_zero, rescale.x_scale) + worth(b[i], rescale.other_zero, rescale.other_scale),
                    rescale);
}

void rescale(Context&, std::uint8_t* out, const std::uint8_t* in, std::int64_t rows, std::int64_t columns,
             std::int64_t out_columns, const Rescale& how) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      out[row * out_columns + column] = stored(worth(in[row * columns + column], how.x_zero, how.x_scale), how);
}

/// Calls visit(out, n, c, oh, ow) for each output of a pooling.
template <class Pool, class Visit>
void for_each_window(std::uint8_t* out, const Pool& s, Visit&& visit) {
  for (std::int64_t n = 0; n < s.planes / s.channels; ++n)
    for (std::int64_t oh = 0; oh < s.OH; ++oh)
      for (std::int64_t ow = 0; ow < s.OW; ++ow)
        for (std::int64_t c = 0; c < s.channels; ++c)
          visit(out[((n * s.OH + oh) * s.OW + ow) * s.channels + c], n, c, oh, ow);
}

void max_pool2d(Context&, std::uint8_t* out, const std::uint8_t* in, const Pool2d& s) {
  for_each_window(out, s, [&](std::uint8_t& y, std::int64_t n, std::int64_t c, std::int64_t oh, std::int64_t ow) {
    y = 0;
    for (std::int64_t kh = 0; kh < s.KH; ++kh)
      for (std::int64_t kw = 0; kw < s.KW; ++kw) {
        const std::int64_t h = oh * s.stride_h - s.pad_h + kh * s.dilation_h;
        const std::int64_t w = ow * s.stride_w - s.pad_w + kw * s.dilation_w;
        if (h < 0 || h >= s.H || w < 0 || w >= s.W) continue;
        y = std::max(y, in[((n * s.H + h) * s.W + w) * s.channels + c]);
      }
  });
}

/// One side of a window: the positions inside of the plane, and how many count.
struct Side {
  std::int64_t begin, end, count;
};
Side side(std::int64_t o, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t size) {
  const std::int64_t begin = o * stride - padding, end = std::min(begin + kernel, size + padding);
  return {std::max<std::int64_t>(begin, 0), std::min(end, size), end - begin};
}
Side part(std::int64_t o, std::int64_t parts, std::int64_t size) {
  const std::int64_t begin = o * size / parts, end = ((o + 1) * size + parts - 1) / parts;
  return {begin, end, end - begin};
}

/// `in` is the channel's first position.
template <class Pool>
std::uint8_t average(const std::uint8_t* in, const Pool& s, const Side& rows, const Side& columns, bool counts_padding,
                     const Rescale& rescale) {
  std::uint32_t sum = 0;
  for (std::int64_t h = rows.begin; h < rows.end; ++h)
    for (std::int64_t w = columns.begin; w < columns.end; ++w)
      sum += static_cast<std::uint32_t>(in[(h * s.W + w) * s.channels] - rescale.x_zero);
  const std::int64_t count =
      counts_padding ? rows.count * columns.count : (rows.end - rows.begin) * (columns.end - columns.begin);
  return stored(static_cast<float>(static_cast<std::int32_t>(sum)) * rescale.x_scale / static_cast<float>(count),
                rescale);
}

void avg_pool2d(Context&, std::uint8_t* out, const std::uint8_t* in, const Pool2d& s, const Rescale& rescale) {
  for_each_window(out, s, [&](std::uint8_t& y, std::int64_t n, std::int64_t c, std::int64_t oh, std::int64_t ow) {
    y = average(in + n * s.H * s.W * s.channels + c, s, side(oh, s.KH, s.stride_h, s.pad_h, s.H),
                side(ow, s.KW, s.stride_w, s.pad_w, s.W), s.count_include_pad, rescale);
  });
}

void adaptive_avg_pool2d(Context&, std::uint8_t* out, const std::uint8_t* in, const AdaptivePool2d& s,
                         const Rescale& rescale) {
  for_each_window(out, s, [&](std::uint8_t& y, std::int64_t n, std::int64_t c, std::int64_t oh, std::int64_t ow) {
    y = average(in + n * s.H * s.W * s.channels + c, s, part(oh, s.OH, s.H), part(ow, s.OW, s.W), true, rescale);
  });
}

}  // namespace

kernels::Quantized quantized() {
  return {.quantize = quantize,
          .dequantize = dequantize,
          .conv2d = conv2d,
          .conv2d_float = conv2d_float,
          .add = add,
          .rescale = rescale,
          .max_pool2d = max_pool2d,
          .avg_pool2d = avg_pool2d,
          .adaptive_avg_pool2d = adaptive_avg_pool2d};
}

}  // namespace tern::sequential
