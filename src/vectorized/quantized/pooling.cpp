// Pooling of stored numbers, channels last: a vector is some channels of one position.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/quantized/pooling.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "vectorized/parallel.hpp"
#include "vectorized/quantized/pooling.hpp"
#include "vectorized/quantized/rescale.hpp"
#include "vectorized/quantized/window.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using int8::Window;

void largest_of(std::uint8_t* out, const std::uint8_t* in, std::int64_t channels, const Window& window) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) {
    auto best = hn::Zero(d);
    for (std::int64_t h = window.rows.begin; h < window.rows.end; h += window.row_step)
      for (std::int64_t w = window.columns.begin; w < window.columns.end; w += window.column_step)
        best = hn::Max(best, hn::LoadU(d, in + (h * window.width + w) * channels + c));
    hn::StoreU(best, d, out + c);
  }
  for (; c < channels; ++c) {
    std::uint8_t best = 0;
    for (std::int64_t h = window.rows.begin; h < window.rows.end; h += window.row_step)
      for (std::int64_t w = window.columns.begin; w < window.columns.end; w += window.column_step)
        best = std::max(best, in[(h * window.width + w) * channels + c]);
    out[c] = best;
  }
}

void mean_of(std::uint8_t* out, const std::uint8_t* in, std::int64_t channels, const Window& window,
             const kernels::Rescale& rescale) {
  const Rescaling how(rescale);
  const auto scale = hn::Set(how.d, rescale.x_scale), count = hn::Set(how.d, static_cast<float>(window.count));
  const std::int64_t inside = (window.rows.end - window.rows.begin) * (window.columns.end - window.columns.begin);
  const auto zeros = hn::Set(how.di, static_cast<std::int32_t>(static_cast<std::uint32_t>(inside) *
                                                               static_cast<std::uint32_t>(rescale.x_zero)));
  for_lanes(channels, [&](std::int64_t c, std::int64_t lanes) HWY_ATTR {
    auto sum = hn::Zero(how.di);
    for (std::int64_t h = window.rows.begin; h < window.rows.end; ++h)
      for (std::int64_t w = window.columns.begin; w < window.columns.end; ++w)
        sum = hn::Add(sum, how.wide(in + (h * window.width + w) * channels + c, lanes));
    how.store(hn::Div(hn::Mul(hn::ConvertTo(how.d, hn::Sub(sum, zeros)), scale), count), out + c, lanes);
  });
}

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized::int8 {
namespace {

using kernels::AdaptivePool2d;
using kernels::Pool2d;
using vectorized::useful_threads;

HWY_EXPORT(largest_of);
HWY_EXPORT(mean_of);

Side side(std::int64_t o, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t size) {
  const std::int64_t begin = o * stride - padding, end = std::min(begin + kernel, size + padding);
  return {std::max<std::int64_t>(begin, 0), std::min(end, size), end - begin};
}

/// The positions of a dilated kernel that are inside of the plane: from the first on, in steps.
Side taps(std::int64_t o, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t dilation,
          std::int64_t size) {
  std::int64_t begin = o * stride - padding;
  const std::int64_t end = begin + dilation * (kernel - 1) + 1;
  if (begin < 0) begin += (-begin + dilation - 1) / dilation * dilation;
  return {begin, std::min(end, size), kernel};
}

Side part(std::int64_t o, std::int64_t parts, std::int64_t size) {
  const std::int64_t begin = o * size / parts, end = ((o + 1) * size + parts - 1) / parts;
  return {begin, end, end - begin};
}

/// Calls visit(out, image, oh, ow) for each output position.
template <class Pool, class Visit>
void for_windows(Context& context, std::uint8_t* out, const std::uint8_t* in, const Pool& s, double taps_each,
                 Visit&& visit) {
  const std::int64_t images = s.planes / s.channels;
  const double nanoseconds = taps_each * static_cast<double>(s.OW * s.channels);
  vectorized::parallel_for(context, images * s.OH, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t ow = 0; ow < s.OW; ++ow)
        visit(out + (row * s.OW + ow) * s.channels, in + row / s.OH * s.H * s.W * s.channels, row % s.OH, ow);
  });
}

}  // namespace

void max_pool2d(Context& context, std::uint8_t* out, const std::uint8_t* in, const Pool2d& s) {
  for_windows(context, out, in, s, 0.03 * static_cast<double>(s.KH * s.KW),
              [&](std::uint8_t* to, const std::uint8_t* image, std::int64_t oh, std::int64_t ow) {
                HWY_DYNAMIC_DISPATCH(largest_of)
                (to, image, s.channels,
                 {taps(oh, s.KH, s.stride_h, s.pad_h, s.dilation_h, s.H),
                  taps(ow, s.KW, s.stride_w, s.pad_w, s.dilation_w, s.W), s.dilation_h, s.dilation_w, s.W, 0});
              });
}

void avg_pool2d(Context& context, std::uint8_t* out, const std::uint8_t* in, const Pool2d& s,
                const kernels::Rescale& rescale) {
  for_windows(
      context, out, in, s, 0.1 * static_cast<double>(s.KH * s.KW),
      [&](std::uint8_t* to, const std::uint8_t* image, std::int64_t oh, std::int64_t ow) {
        const Side rows = side(oh, s.KH, s.stride_h, s.pad_h, s.H), columns = side(ow, s.KW, s.stride_w, s.pad_w, s.W);
        const std::int64_t count =
            s.count_include_pad ? rows.count * columns.count : (rows.end - rows.begin) * (columns.end - columns.begin);
        HWY_DYNAMIC_DISPATCH(mean_of)(to, image, s.channels, {rows, columns, 1, 1, s.W, count}, rescale);
      });
}

void adaptive_avg_pool2d(Context& context, std::uint8_t* out, const std::uint8_t* in, const AdaptivePool2d& s,
                         const kernels::Rescale& rescale) {
  const double each = 0.1 * static_cast<double>(s.H * s.W) / static_cast<double>(s.OH * s.OW);
  for_windows(context, out, in, s, each,
              [&](std::uint8_t* to, const std::uint8_t* image, std::int64_t oh, std::int64_t ow) {
                const Side rows = part(oh, s.OH, s.H), columns = part(ow, s.OW, s.W);
                HWY_DYNAMIC_DISPATCH(mean_of)
                (to, image, s.channels, {rows, columns, 1, 1, s.W, rows.count * columns.count}, rescale);
              });
}

}  // namespace tern::vectorized::int8
#endif
