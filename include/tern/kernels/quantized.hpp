#pragma once
// Inference in 8 bits. A stored number q of an activation (uint8) is worth scale (q - zero), one scale and one zero per
// tensor; a weight (int8) is worth scale q, one scale per output channel. Images are channels last, [N, H, W, C].
//
// Every mode gives the same bits. Sums are int32 and wrap around beyond it. Rescaling is float32 arithmetic in which
// each operation rounds to nearest even and nothing is contracted:
//
//     t = float(sum) * scale                     (+ float(other) * other_scale)
//     t = t > low ? t : low                      so a NaN becomes low
//     t = t < high ? t : high
//     result = int32(t rounded to nearest even) + zero

#include "tern/kernels/conv.hpp"
#include "tern/kernels/pooling.hpp"

namespace tern::kernels {

/// How a sum becomes a number of the result. For uint8 results low + zero >= 0 and high + zero <= 255, both integers.
struct Rescale {
  float low = 0, high = 255;    ///< bounds of the result, without its zero
  std::int32_t zero = 0;        ///< of the result
  std::int32_t x_zero = 0;      ///< of the input; it stands in for padding
  float x_scale = 1;            ///< the scale of the input divided by that of the result; convolutions have one per
                                ///< channel instead
  std::int32_t other_zero = 0;  ///< of the second summand
  float other_scale = 0;        ///< likewise

  using Members = MemberList<&Rescale::low, &Rescale::high, &Rescale::zero, &Rescale::x_zero, &Rescale::x_scale,
                             &Rescale::other_zero, &Rescale::other_scale>;
};

/// `N` arrays of `P` positions with `C` channels: float32 numbers are [N, C, P], stored ones [N, P, C].
struct QuantizedImages {
  std::int64_t N = 1, C = 1, P = 0;

  using Members = MemberList<&QuantizedImages::N, &QuantizedImages::C, &QuantizedImages::P>;
};

struct Quantized {
  /// out = the result of t = in * x_scale, in [N, C, P], out [N, P, C].
  Kernel<void(Context&, std::uint8_t* out, const float* in, const QuantizedImages&, const Rescale&)> quantize;
  /// out = float(in - x_zero) * x_scale, in [N, P, C], out [N, C, P].
  Kernel<void(Context&, float* out, const std::uint8_t* in, const QuantizedImages&, const Rescale&)> dequantize;

  /// Convolution of the stored numbers: sum = bias[o] + the sum of x * weight, with x_zero over the padding, so `bias`
  /// holds - x_zero * the sum of the channel's weights too. t = float(sum) * scale[o], plus float(other - other_zero) *
  /// other_scale where `other` [N, OH, OW, O] is not null. Weights are [O, KH, KW, C / groups]. The layout in the sizes
  /// is channels_last, the activation none: bounds take its place. A linear layer is a convolution with H = W = 1.
  Kernel<void(Context&, std::uint8_t* y, const std::uint8_t* x, const std::int8_t* weight, const std::int32_t* bias,
              const float* scale, const std::uint8_t* other, const Conv2d&, const Rescale&)>
      conv2d;
  /// The same with float32 results: y = t between low and high, without rounding and without `zero`.
  Kernel<void(Context&, float* y, const std::uint8_t* x, const std::int8_t* weight, const std::int32_t* bias,
              const float* scale, const Conv2d&, const Rescale&)>
      conv2d_float;

  /// t = float(a - x_zero) * x_scale + float(b - other_zero) * other_scale. `out` may be an input.
  Kernel<void(Context&, std::uint8_t* out, const std::uint8_t* a, const std::uint8_t* b, std::int64_t n,
              const Rescale&)>
      add;
  /// t = float(in - x_zero) * x_scale for rows of `columns`, which lie out_columns apart in `out`.
  Kernel<void(Context&, std::uint8_t* out, const std::uint8_t* in, std::int64_t rows, std::int64_t columns,
              std::int64_t out_columns, const Rescale&)>
      rescale;

  /// The largest stored number of each window; a window of padding alone gives 0.
  Kernel<void(Context&, std::uint8_t* out, const std::uint8_t* in, const Pool2d&)> max_pool2d;
  /// sum = the sum over the window of in - x_zero; t = float(sum) * x_scale / float(the divisor of Pooling).
  Kernel<void(Context&, std::uint8_t* out, const std::uint8_t* in, const Pool2d&, const Rescale&)> avg_pool2d;
  Kernel<void(Context&, std::uint8_t* out, const std::uint8_t* in, const AdaptivePool2d&, const Rescale&)>
      adaptive_avg_pool2d;

  using Members = MemberList<&Quantized::quantize, &Quantized::dequantize, &Quantized::conv2d, &Quantized::conv2d_float,
                             &Quantized::add, &Quantized::rescale, &Quantized::max_pool2d, &Quantized::avg_pool2d,
                             &Quantized::adaptive_avg_pool2d>;
};

}  // namespace tern::kernels
