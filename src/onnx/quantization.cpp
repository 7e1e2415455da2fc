// Eight-bit integers. Products are computed in float64, which is exact for them.

#include <algorithm>

#include "onnx/model.hpp"
#include "onnx/narrow.hpp"
#include "onnx/windows.hpp"

namespace tern::onnx {

namespace {

Tensor as(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : op::cast(x, dtype); }

/// Scales and zero points for x: of the whole, of the slices of an axis, or of blocks along it.
Tensor spread(const Call& call, const Tensor& each, const Tensor& x, std::int64_t given_axis, std::int64_t block) {
  if (each.numel() == 1 && block == 0) return op::reshape(each, {});
  const int axis = axis_of(call, given_axis, x.rank());
  const auto fits = [&](bool fit) {
    if (!fit)
      call.refuse(message("has scales or zero points of ", each.shape(), " for ", x.shape(), " and axis ", axis,
                          block == 0 ? "" : message(" in blocks of ", block)),
                  "one for each slice of the axis, or for each block");
  };
  if (block == 0) {
    fits(each.shape() == Shape{x.size(axis)});
    Shape shape = Shape::filled(x.rank(), 1);
    shape[axis] = -1;
    return op::reshape(each, shape);
  }
  fits(each.rank() == x.rank() && block > 0 && block <= x.numel());
  for (int d = 0; d < x.rank(); ++d) fits(each.shape()[d] == (d == axis ? (x.size(d) + block - 1) / block : x.size(d)));
  Shape longer, repeated, joined;
  for (int d = 0; d < each.rank(); ++d) {
    longer.push_back(each.shape()[d]);
    repeated.push_back(each.shape()[d]);
    joined.push_back(d == axis ? each.shape()[d] * block : each.shape()[d]);
    if (d == axis) {
      longer.push_back(1);
      repeated.push_back(block);
    }
  }
  const Tensor whole = op::reshape(op::expand(op::reshape(each, longer), repeated), joined);
  return op::slice(whole, axis, 0, x.size(axis));
}

std::pair<double, double> range_of(const Call& call, DType dtype) {
  if (dtype == DType::uint8) return {0, 255};
  if (dtype == DType::int8) return {-128, 127};
  call.refuse(message("quantizes to ", dtype), "uint8 or int8");
}

/// The type of quantized elements: that of the zero points, else an attribute's, else uint8.
std::int64_t quantized_element(const Call& call, int zero) {
  const std::int64_t type = call.integer("output_dtype", 0);
  const std::int64_t own = !call.has(zero)           ? 0
                           : call.element(zero) != 0 ? call.element(zero)
                                                     : element_of(call.input(zero).dtype());
  if (own != 0 && type != 0 && own != type)
    call.refuse(message("makes ", name_of_element(type), " with zero points of ", name_of_element(own)),
                "repair the file");
  return own != 0 ? own : type != 0 ? type : element_of(DType::uint8);
}

/// round(x / scale) + zero within the range of the dtype; all are of one floating dtype.
Tensor quantized(const Call& call, const Tensor& x, const Tensor& scale, const Tensor& zero, DType dtype) {
  const auto [low, high] = range_of(call, dtype);
  Tensor y = op::round(op::div(x, scale));
  if (zero.defined()) y = op::add(y, zero);
  return op::cast(op::clamp(y, low, high), dtype);
}

Results quantize_linear(const Call& call) {
  const bool saturate = call.integer("saturate", 1) != 0;
  const Tensor& x = call.input(0);
  const std::int64_t axis = call.integer("axis", 1), block = call.integer("block_size", 0);
  const std::int64_t precision = call.integer("precision", 0), element = quantized_element(call, 2);
  const Narrow* narrow = narrow_of(element);
  const DType inside = precision == 0 ? call.input(1).dtype() : dtype_of_element(precision).value_or(DType::float32);
  const Tensor scale = as(spread(call, call.input(1), x, axis, block), inside);
  Tensor zero;
  if (call.has(2)) zero = as(spread(call, as(call.input(2), DType::float32), x, axis, block), DType::float32);
  const auto moved = [&](const Tensor& ratio) { return zero.defined() ? op::add(ratio, zero) : ratio; };
  const Tensor ratio = as(op::div(as(x, inside), scale), DType::float32);
  if (narrow != nullptr) {
    call.makes(element);
    if (narrow->floating()) return {narrowed_to(*narrow, moved(ratio), saturate)};
    return {op::cast(op::clamp(moved(op::round(ratio)), narrow->low(), narrow->high()), narrow->dtype)};
  }
  const std::optional<DType> dtype = dtype_of_element(element);
  if (!dtype)
    call.refuse(message("makes elements of ", name_of_element(element)), "uint8, int8, or what has fewer bits");
  const auto [low, high] = range_of(call, *dtype);
  return {op::cast(op::clamp(moved(op::round(ratio)), low, high), *dtype)};
}

Results dequantize_linear(const Call& call) {
  const Tensor &x = call.input(0), &given = call.input(1);
  const std::int64_t axis = call.integer("axis", 1), block = call.integer("block_size", 0);
  const std::int64_t type = call.integer("output_dtype", 0);
  const DType dtype = type == 0 ? given.dtype() : dtype_of_element(type).value_or(given.dtype());
  Tensor steps = as(x, DType::float32);
  if (call.has(2)) steps = op::sub(steps, spread(call, as(call.input(2), DType::float32), x, axis, block));
  return {op::mul(as(steps, dtype), as(spread(call, given, x, axis, block), dtype))};
}

Results dynamic_quantize_linear(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor high = op::maximum(op::max(x), 0.0), low = op::minimum(op::min(x), 0.0);
  const Tensor scale = op::div(op::sub(high, low), 255.0);
  const Tensor zero = op::clamp(op::round(op::div(op::neg(low), scale)), 0, 255);
  return {quantized(call, x, scale, zero, DType::uint8), scale, op::cast(zero, DType::uint8)};
}

/// Elements less their zero point, in float64; rows or columns may have their own.
Tensor centred(const Tensor& x, const Tensor& zero, bool rows) {
  const Tensor wide = as(x, DType::float64);
  if (!zero.defined()) return wide;
  Tensor own = as(zero, DType::float64);
  if (own.rank() == 1 && own.numel() > 1 && rows) own = op::reshape(own, {-1, 1});
  return op::sub(wide, own.numel() == 1 ? op::reshape(own, {}) : own);
}

Results matmul_integer(const Call& call) {
  const Tensor a = centred(call.input(0), call.optional(2), true), b = centred(call.input(1), call.optional(3), false);
  return {op::cast(op::matmul(a, b), DType::int32)};
}

Results qlinear_matmul(const Call& call) {
  const DType wide = DType::float64;
  const auto per_row = [&](int input) {
    const Tensor scale = as(call.input(input), wide);
    return scale.rank() == 1 && scale.numel() > 1 ? op::reshape(scale, {-1, 1})
           : scale.numel() == 1                   ? op::reshape(scale, {})
                                                  : scale;
  };
  const Tensor a = centred(call.input(0), call.input(2), true), b = centred(call.input(3), call.input(5), false);
  const Tensor b_scale = as(call.input(4), wide);
  const Tensor scale = op::mul(per_row(1), b_scale.numel() == 1 ? op::reshape(b_scale, {}) : b_scale);
  const Tensor y_scale = op::div(op::reshape(as(call.input(6), wide), {}), scale);
  return {quantized(call, op::matmul(a, b), y_scale, op::reshape(as(call.input(7), wide), {}), call.input(7).dtype())};
}

/// The sums of a convolution of integers, in float64.
Tensor integer_conv(const Call& call, const Tensor& x, const Tensor& weight) {
  if (x.rank() < 3 || x.rank() > 4 || weight.rank() != x.rank())
    call.refuse(message("has an input ", x.shape(), " and weights ", weight.shape()), "one or two spatial dimensions");
  const Integers kernel(weight.shape().begin() + 2, weight.shape().end());
  call.ignore({"kernel_shape"});
  const Windows windows = windows_of(call, {x.shape().begin() + 2, x.shape().end()}, kernel);
  op::Conv2dOptions options{.stride = pair_of(windows.stride, 1),
                            .padding = pair_of(windows.before, 0),
                            .dilation = pair_of(windows.dilation, 1),
                            .end_padding = pair_of(windows.after, 0),
                            .groups = call.integer("group", 1)};
  return narrowed(op::conv2d(widened(x), widened(weight), {}, options), x.rank());
}
/// One number for each output channel in front of x's others.
Tensor per_output(const Tensor& each, int rank, int at) {
  const Tensor wide = as(each, DType::float64);
  if (wide.numel() == 1) return op::reshape(wide, {});
  Shape shape = Shape::filled(rank, 1);
  shape[at] = -1;
  return op::reshape(wide, shape);
}

Tensor centred_weight(const Call& call, int weight, int zero) {
  const Tensor& w = call.input(weight);
  if (!call.has(zero)) return as(w, DType::float64);
  return op::sub(as(w, DType::float64), per_output(call.input(zero), w.rank(), 0));
}

Results conv_integer(const Call& call) {
  const Tensor x = centred(call.input(0), call.optional(2), false);
  return {op::cast(integer_conv(call, x, centred_weight(call, 1, 3)), DType::int32)};
}

Results qlinear_conv(const Call& call) {
  const Tensor x = centred(call.input(0), call.input(2), false);
  Tensor sums = integer_conv(call, x, centred_weight(call, 3, 5));
  if (call.has(8)) sums = op::add(sums, per_output(call.input(8), x.rank(), 1));
  const Tensor x_scale = op::reshape(as(call.input(1), DType::float64), {});
  const Tensor scale = op::mul(x_scale, per_output(call.input(4), x.rank(), 1));
  const Tensor y_scale = op::div(op::reshape(as(call.input(6), DType::float64), {}), scale);
  const Tensor zero = op::reshape(as(call.input(7), DType::float64), {});
  return {quantized(call, sums, y_scale, zero, call.input(7).dtype())};
}

}  // namespace

void append_quantization(Table& table) {
  table["QuantizeLinear"] = quantize_linear;
  table["DequantizeLinear"] = dequantize_linear;
  table["DynamicQuantizeLinear"] = dynamic_quantize_linear;
  table["MatMulInteger"] = matmul_integer;
  table["QLinearMatMul"] = qlinear_matmul;
  table["ConvInteger"] = conv_integer;
  table["QLinearConv"] = qlinear_conv;
}

}  // namespace tern::onnx
