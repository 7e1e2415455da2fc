// The nodes that join_quantized makes: 8 bits in, 8 bits out. Scales and zeros are known.

#include "tern/operators/quantized.hpp"

#include <cmath>

#include "onnx/windows.hpp"
#include "tern/modes/device.hpp"

namespace tern::onnx {

namespace {

/// What the stored numbers are worth that inputs `scale` and `scale` + 1 describe. Numbers of int8 are stored plus 128.
op::Quantization quantization(const Call& call, int scale) {
  op::Quantization as{.scale = call.known_number(scale)};
  if (call.has(scale + 1))
    as.zero = call.known_integer(scale + 1) + (call.input(scale + 1).dtype() == DType::int8 ? 128 : 0);
  if (!(as.scale > 0) || !std::isfinite(as.scale)) call.refuse(message("has a scale of ", as.scale), "repair the file");
  return as;
}

Results quantize(const Call& call) {
  call.ignore({"axis", "saturate"});
  return {op::quantize(call.input(0), quantization(call, 1))};
}
Results dequantize(const Call& call) {
  call.ignore({"axis"});
  return {op::dequantize(call.input(0), quantization(call, 1))};
}

/// Constants of a layer: inputs 3 to 5 are its weights with scale and zero, 6 and 7 describe the result, 8 is the bias.
struct Layer {
  op::Quantization x, y;
  Tensor weight = {}, bias = {}, scale = {};
};
/// The weights are turned by `order`; nobody hears it, for they are known.
Layer layer_of(const Call& call, const Tensor& given, const Integers& order) {
  const operators::Listening nobody(nullptr);
  const Device host(reference_mode());
  const Tensor turned = order.empty() ? given : op::permute(given, order).contiguous();
  const std::vector<double> rows = turned.values();
  const Shape& shape = turned.shape();
  Layer layer{.x = quantization(call, 1), .y = quantization(call, 6)};
  const auto outputs = static_cast<std::size_t>(shape[0]);
  const std::size_t terms = outputs == 0 ? 0 : rows.size() / outputs;
  std::vector<double> scales = call.known_numbers(4), zeros{0}, bias(outputs);
  if (call.has(5)) zeros = call.known_numbers(5);
  if (call.has(8)) bias = call.known_numbers(8);
  const bool whole = call.has(8) && !is_floating(call.input(8).dtype());
  for (std::vector<double>* each : {&scales, &zeros})
    if (each->size() == 1) each->resize(outputs, (*each)[0]);
  if (scales.size() != outputs || zeros.size() != outputs || bias.size() != outputs)
    call.refuse(
        message("has ", scales.size(), " scales and ", bias.size(), " numbers of bias for ", outputs, " outputs"),
        "repair the file");
  std::vector<std::int8_t> stored;
  std::vector<std::int32_t> sums;
  std::vector<float> factors;
  for (std::size_t o = 0; o < outputs; ++o) {
    double sum = 0;
    for (std::size_t i = o * terms; i < (o + 1) * terms; ++i) {
      const double number = rows[i] - zeros[o];
      if (number < -128 || number > 127)
        call.refuse("has weights beyond int8", "quantise them symmetrically, or load with LoadOptions::int8 = false");
      stored.push_back(static_cast<std::int8_t>(number));
      sum += number;
    }
    const double unit = layer.x.scale * scales[o];
    const double own = (whole ? bias[o] : std::nearbyint(bias[o] / unit)) - static_cast<double>(layer.x.zero) * sum;
    if (!(std::abs(own) < 0x1p31)) call.refuse(message("has a bias of ", bias[o]), "it is beyond int32");
    sums.push_back(static_cast<std::int32_t>(own));
    factors.push_back(static_cast<float>(unit / layer.y.scale));
  }
  layer.weight = tern::tensor(stored, shape);
  layer.bias = tern::tensor(sums, {shape[0]});
  layer.scale = tern::tensor(factors, {shape[0]});
  return layer;
}

std::optional<double> lowest(const Call& call, const op::Quantization& as) {
  if (call.integer("relu", 0) == 0 || as.zero == 0) return {};
  return static_cast<double>(as.zero);
}

Results conv(const Call& call) {
  const Tensor x = widened(call.input(0)), &given = call.input(3);
  if (x.rank() != 4 || given.rank() != call.input(0).rank())
    call.refuse(message("has an input ", x.shape(), " and weights ", given.shape()), "one or two spatial dimensions");
  Layer layer = layer_of(call, given, given.rank() == 4 ? Integers{0, 2, 3, 1} : Integers{0, 2, 1});
  if (given.rank() == 3) {  // [O, K, C] as [O, 1, K, C]
    const Shape& rows = layer.weight.shape();
    layer.weight = layer.weight.reshape({rows[0], 1, rows[1], rows[2]});
  }
  call.ignore({"kernel_shape"});
  const Integers sizes(call.input(0).shape().begin() + 2, call.input(0).shape().end()),
      kernel(call.input(3).shape().begin() + 2, call.input(3).shape().end());
  const Windows windows = windows_of(call, sizes, kernel);
  op::QuantizedConv2dOptions options{.stride = pair_of(windows.stride, 1),
                                     .padding = pair_of(windows.before, 0),
                                     .dilation = pair_of(windows.dilation, 1),
                                     .groups = call.integer("group", 1),
                                     .x_zero = layer.x.zero,
                                     .zero = layer.y.zero,
                                     .low = lowest(call, layer.y)};
  Tensor padded = x;
  if (windows.before != windows.after) {
    const Pair end = pair_of(windows.after, 0);
    padded =
        op::pad(x, {{2, options.padding.h, end.h}, {3, options.padding.w, end.w}}, static_cast<double>(layer.x.zero));
    options.padding = 0;
  }
  return {
      narrowed(op::quantized_conv2d(padded, layer.weight, layer.bias, layer.scale, {}, options), call.input(0).rank())};
}

Results linear(const Call& call) {
  const Tensor& given = call.input(3);
  if (given.rank() != 2) call.refuse(message("has weights ", given.shape()), "a matrix");
  const Layer layer = layer_of(call, given, call.integer("transB", 0) != 0 ? Integers{} : Integers{1, 0});
  const op::QuantizedLinearOptions options{.x_zero = layer.x.zero, .zero = layer.y.zero, .low = lowest(call, layer.y)};
  return {op::quantized_linear(call.input(0), layer.weight, layer.bias, layer.scale, options)};
}

Results add(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(3);
  const op::Quantization of_a = quantization(call, 1), of_b = quantization(call, 4), as = quantization(call, 6);
  if (a.shape() == b.shape()) return {op::quantized_add(a, b, {.a = of_a, .b = of_b, .result = as})};
  return {op::quantize(op::add(op::dequantize(a, of_a), op::dequantize(b, of_b)), as)};
}

Results concat(const Call& call) {
  const int count = (call.inputs() - 1) / 3;
  const op::Quantization as = quantization(call, 3 * count);
  std::vector<Tensor> tensors, real;
  std::vector<op::Quantization> from;
  for (int i = 0; i < count; ++i) {
    tensors.push_back(call.input(3 * i));
    from.push_back(quantization(call, 3 * i + 1));
  }
  const int rank = tensors[0].rank(), axis = axis_of(call, call.integer("axis"), rank);
  if (axis == 1 && (rank == 2 || rank == 4)) return {op::quantized_cat(tensors, from, as)};
  for (std::size_t i = 0; i < tensors.size(); ++i) real.push_back(op::dequantize(tensors[i], from[i]));
  return {op::quantize(op::cat(real, axis), as)};
}

Results global_average_pool(const Call& call) {
  const Tensor& x = call.input(0);
  const op::Quantization from = quantization(call, 1), as = quantization(call, 3);
  if (x.rank() == 4) return {op::quantized_adaptive_avg_pool2d(x, 1, {.x = from, .result = as})};
  Dims dims;
  for (int d = 2; d < x.rank(); ++d) dims.push_back(d);
  return {op::quantize(op::mean(op::dequantize(x, from), dims, true), as)};
}

Results max_pool(const Call& call) {
  const Tensor x = widened(call.input(0));
  if (x.rank() != 4) call.refuse(message("has an input ", x.shape()), "one or two spatial dimensions");
  call.ignore({"storage_order"});
  const Integers sizes(call.input(0).shape().begin() + 2, call.input(0).shape().end());
  Windows windows = windows_of(call, sizes, call.integers("kernel_shape"));
  op::QuantizedPoolOptions options{.stride = pair_of(windows.stride, 1),
                                   .padding = pair_of(windows.before, 0),
                                   .dilation = pair_of(windows.dilation, 1),
                                   .ceil_mode = windows.ceil};
  Tensor padded = x;
  const Pair kernel = pair_of(windows.kernel, 1);
  if (windows.before != windows.after || 2 * options.padding.h > kernel.h || 2 * options.padding.w > kernel.w) {
    windows = extended(windows, call.input(0));
    options.ceil_mode = false;
    const Pair end = pair_of(windows.after, 0);
    padded = op::pad(x, {{2, options.padding.h, end.h}, {3, options.padding.w, end.w}}, 0);  // the least number
    options.padding = 0;
  }
  return {narrowed(op::quantized_max_pool2d(padded, kernel, options), call.input(0).rank())};
}

}  // namespace

void append_quantized(Table& table) {
  table["tern.int8.Quantize"] = quantize;
  table["tern.int8.Dequantize"] = dequantize;
  table["tern.int8.Conv"] = conv;
  table["tern.int8.Linear"] = linear;
  table["tern.int8.Add"] = add;
  table["tern.int8.Concat"] = concat;
  table["tern.int8.GlobalAveragePool"] = global_average_pool;
  table["tern.int8.MaxPool"] = max_pool;
}

}  // namespace tern::onnx
