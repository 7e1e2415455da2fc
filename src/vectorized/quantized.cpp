// Stored numbers one by one: quantising, dequantising, sums, rescaling. The products are in quantized/.

#include <type_traits>

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/quantized.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "vectorized/quantized/convolution.hpp"
#include "vectorized/quantized/pooling.hpp"
#include "vectorized/quantized/rescale.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using kernels::Rescale;

void quantize_run(std::uint8_t* out, const float* in, std::int64_t n, const Rescale& rescale) {
  const Rescaling how(rescale);
  const auto scale = hn::Set(how.d, rescale.x_scale);
  for_lanes(n, [&](std::int64_t i, std::int64_t count)
                   HWY_ATTR { how.store(hn::Mul(load_columns(how.d, in + i, count), scale), out + i, count); });
}

void dequantize_run(float* out, const std::uint8_t* in, std::int64_t n, const Rescale& rescale) {
  const Rescaling how(rescale);
  for_lanes(n, [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    store_columns(how.worth(in + i, count, rescale.x_zero, rescale.x_scale), how.d, out + i, count);
  });
}

void rescale_run(std::uint8_t* out, const std::uint8_t* in, std::int64_t n, const Rescale& rescale) {
  const Rescaling how(rescale);
  for_lanes(n, [&](std::int64_t i, std::int64_t count)
                   HWY_ATTR { how.store(how.worth(in + i, count, rescale.x_zero, rescale.x_scale), out + i, count); });
}

void add_run(std::uint8_t* out, const std::uint8_t* a, const std::uint8_t* b, std::int64_t n, const Rescale& rescale) {
  const Rescaling how(rescale);
  for_lanes(n, [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    how.store(hn::Add(how.worth(a + i, count, rescale.x_zero, rescale.x_scale),
                      how.worth(b + i, count, rescale.other_zero, rescale.other_scale)),
              out + i, count);
  });
}

}  // namespace
}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {
namespace {

using kernels::QuantizedImages;
using kernels::Rescale;

HWY_EXPORT(quantize_run);
HWY_EXPORT(dequantize_run);
HWY_EXPORT(rescale_run);
HWY_EXPORT(add_run);

constexpr double nanoseconds = 0.15;

/// Calls run(n, begin, count) for parts of the positions of the images.
template <class Run>
void for_positions(Context& context, const QuantizedImages& s, Run&& run) {
  constexpr std::int64_t part = 256;
  const std::int64_t parts = (s.P + part - 1) / part;
  parallel_for(context, s.N * parts, 1.0 * part * static_cast<double>(s.C), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t first = at % parts * part;
      run(at / parts, first, std::min(part, s.P - first));
    }
  });
}

/// Rows of `channels` side by side, in pixels that lie `apart`; 0: in pixels of these alone, whose distance is known.
template <int channels>
void interleave(std::uint8_t* to, std::int64_t apart, const std::uint8_t (*rows)[256], std::int64_t count) {
  const auto run = [=](auto distance) {
    for (std::int64_t p = 0; p < count; ++p)
      for (int j = 0; j < channels; ++j) to[p * distance + j] = rows[j][p];
  };
  apart == 0 ? run(std::integral_constant<int, channels>()) : run(apart);
}

void quantize(Context& context, std::uint8_t* out, const float* in, const QuantizedImages& s, const Rescale& rescale) {
  if (s.C == 1 || s.P == 1) {
    parallel_for(context, s.N * s.C * s.P, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(quantize_run)(out + begin, in + begin, end - begin, rescale);
    });
    return;
  }
  for_positions(context, s, [&](std::int64_t n, std::int64_t first, std::int64_t count) {
    constexpr std::int64_t together = 4;
    std::uint8_t stored[together][256];
    const auto row = [&](std::int64_t c) { return in + (n * s.C + c) * s.P + first; };
    std::uint8_t* const to = out + (n * s.P + first) * s.C;
    for (std::int64_t c = 0; c < s.C; c += together) {
      const std::int64_t some = std::min(together, s.C - c);
      for (std::int64_t j = 0; j < some; ++j) HWY_DYNAMIC_DISPATCH(quantize_run)(stored[j], row(c + j), count, rescale);
      constexpr decltype(&interleave<1>) interleaves[together]{interleave<1>, interleave<2>, interleave<3>,
                                                               interleave<4>};
      interleaves[some - 1](to + c, some == s.C ? 0 : s.C, stored, count);
    }
  });
}

void dequantize(Context& context, float* out, const std::uint8_t* in, const QuantizedImages& s,
                const Rescale& rescale) {
  if (s.C == 1 || s.P == 1) {
    parallel_for(context, s.N * s.C * s.P, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(dequantize_run)(out + begin, in + begin, end - begin, rescale);
    });
    return;
  }
  for_positions(context, s, [&](std::int64_t n, std::int64_t first, std::int64_t count) {
    std::uint8_t stored[256];
    const std::uint8_t* const from = in + (n * s.P + first) * s.C;
    for (std::int64_t c = 0; c < s.C; ++c) {
      for (std::int64_t p = 0; p < count; ++p) stored[p] = from[p * s.C + c];
      HWY_DYNAMIC_DISPATCH(dequantize_run)(out + (n * s.C + c) * s.P + first, stored, count, rescale);
    }
  });
}

void add(Context& context, std::uint8_t* out, const std::uint8_t* a, const std::uint8_t* b, std::int64_t n,
         const Rescale& rescale) {
  parallel_for(context, n, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_run)(out + begin, a + begin, b + begin, end - begin, rescale);
  });
}

void rescale(Context& context, std::uint8_t* out, const std::uint8_t* in, std::int64_t rows, std::int64_t columns,
             std::int64_t out_columns, const Rescale& how) {
  const bool same = how.x_scale == 1 && how.x_zero == how.zero;
  parallel_for(context, rows, (same ? 0.03 : nanoseconds) * static_cast<double>(columns),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row)
                   if (same)
                     std::copy_n(in + row * columns, columns, out + row * out_columns);
                   else
                     HWY_DYNAMIC_DISPATCH(rescale_run)(out + row * out_columns, in + row * columns, columns, how);
               });
}

}  // namespace

kernels::Quantized quantized() {
  return {.quantize = quantize,
          .dequantize = dequantize,
          .conv2d = int8::conv2d,
          .conv2d_float = int8::conv2d_float,
          .add = add,
          .rescale = rescale,
          .max_pool2d = int8::max_pool2d,
          .avg_pool2d = int8::avg_pool2d,
          .adaptive_avg_pool2d = int8::adaptive_avg_pool2d};
}

}  // namespace tern::vectorized
#endif
