#pragma once
// Inference in 8 bits. Activations are uint8, a stored number q being worth scale (q - zero); weights are int8, worth
// scale q with one scale per output channel. Every mode gives the same bits (kernels/quantized.hpp has the arithmetic).
// There are no gradients. Images have the shape [N, C, H, W] and lie channels last. graph::quantize makes programs of
// these operators.

#include <optional>
#include <vector>

#include "tern/core/member_list.hpp"
#include "tern/operators/conv.hpp"

namespace tern::operators {

/// What a stored number is worth: scale (q - zero).
struct Quantization {
  double scale = 1;
  std::int64_t zero = 0;  ///< in [0, 255]

  using Members = MemberList<&Quantization::scale, &Quantization::zero>;
};

/// x [any shape], float32, as uint8: x / scale rounded to nearest even, plus zero, bounded to [0, 255]. The division is
/// a float32 product with 1 / scale.
Tensor quantize(const Tensor& x, const Quantization& as);
/// scale (q - zero) of x, uint8, as float32 of the same shape.
Tensor dequantize(const Tensor& x, const Quantization& as);

struct QuantizedConv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  std::int64_t x_zero = 0;                    ///< of x; it stands in the padding
  DType dtype = DType::uint8;                 ///< of the result: uint8 or float32
  std::int64_t zero = 0;                      ///< of a uint8 result
  std::optional<double> low = {}, high = {};  ///< bounds of the result: stored numbers or, for float32, real ones
  std::int64_t other_zero = 0;                ///< of `other`
  double other_scale = 0;                     ///< the scale of `other` divided by that of the result

  using Members =
      MemberList<&QuantizedConv2dOptions::stride, &QuantizedConv2dOptions::padding, &QuantizedConv2dOptions::dilation,
                 &QuantizedConv2dOptions::groups, &QuantizedConv2dOptions::x_zero, &QuantizedConv2dOptions::dtype,
                 &QuantizedConv2dOptions::zero, &QuantizedConv2dOptions::low, &QuantizedConv2dOptions::high,
                 &QuantizedConv2dOptions::other_zero, &QuantizedConv2dOptions::other_scale>;
};
/// Cross-correlation of x [N, C, H, W], uint8, with weight [O, KH, KW, C / groups], int8, in int32: bias [O], int32,
/// plus the sum of the stored numbers' products, times scale [O], float32. `bias` holds - x_zero times the sum of the
/// channel's weights too. A uint8 result may add `other`, uint8 of the result's shape: (q - other_zero) other_scale.
/// The result is [N, O, OH, OW].
Tensor quantized_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& scale,
                        const Tensor& other, const QuantizedConv2dOptions& options);
/// The same of convolutions side by side: x, weight, bias and scale of each, which write their channels of one result.
Tensor quantized_conv2d_cat(const std::vector<Tensor>& tensors, const std::vector<QuantizedConv2dOptions>& options);

struct QuantizedLinearOptions {
  std::int64_t x_zero = 0;
  DType dtype = DType::uint8;
  std::int64_t zero = 0;
  std::optional<double> low = {}, high = {};

  using Members =
      MemberList<&QuantizedLinearOptions::x_zero, &QuantizedLinearOptions::dtype, &QuantizedLinearOptions::zero,
                 &QuantizedLinearOptions::low, &QuantizedLinearOptions::high>;
};
/// The same for rows: x [..., in] with weight [out, in] gives [..., out].
Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& scale,
                        const QuantizedLinearOptions& options);

struct QuantizedAddOptions {
  Quantization a = {}, b = {}, result = {};
  std::int64_t low = 0, high = 255;  ///< bounds of the stored result

  using Members = MemberList<&QuantizedAddOptions::a, &QuantizedAddOptions::b, &QuantizedAddOptions::result,
                             &QuantizedAddOptions::low, &QuantizedAddOptions::high>;
};
/// The sum of two uint8 tensors of one shape.
Tensor quantized_add(const Tensor& a, const Tensor& b, const QuantizedAddOptions& options);
/// Joins uint8 tensors along dimension 1; each is rescaled from its own quantization, in `from`, to that of the result.
Tensor quantized_cat(const std::vector<Tensor>& tensors, const std::vector<Quantization>& from,
                     const Quantization& result);

struct QuantizedPoolOptions {
  std::optional<Pair> stride = {};  ///< the kernel's size if absent
  Pair padding = 0, dilation = 1;
  bool ceil_mode = false;  ///< as in MaxPool2dOptions

  using Members = MemberList<&QuantizedPoolOptions::stride, &QuantizedPoolOptions::padding,
                             &QuantizedPoolOptions::dilation, &QuantizedPoolOptions::ceil_mode>;
};
/// The largest stored number of each window of x [N, C, H, W]; the result has x's quantization.
Tensor quantized_max_pool2d(const Tensor& x, Pair kernel, const QuantizedPoolOptions& options = {});

struct QuantizedAveragePoolOptions {
  std::optional<Pair> stride = {};
  Pair padding = 0;
  bool count_include_pad = true, ceil_mode = false;
  Quantization x = {}, result = {};

  using Members = MemberList<&QuantizedAveragePoolOptions::stride, &QuantizedAveragePoolOptions::padding,
                             &QuantizedAveragePoolOptions::count_include_pad, &QuantizedAveragePoolOptions::ceil_mode,
                             &QuantizedAveragePoolOptions::x, &QuantizedAveragePoolOptions::result>;
};
/// The mean of each window, as avg_pool2d.
Tensor quantized_avg_pool2d(const Tensor& x, Pair kernel, const QuantizedAveragePoolOptions& options);
/// The mean of each of output.h x output.w parts, as adaptive_avg_pool2d; stride, padding and the two flags are not
/// read.
Tensor quantized_adaptive_avg_pool2d(const Tensor& x, Pair output, const QuantizedAveragePoolOptions& options);

}  // namespace tern::operators
