#include <cmath>
#include <limits>

#include "onnx/writer_windows.hpp"
#include "tern/tensor/create.hpp"

namespace tern::onnx {

namespace {

std::string convolved(const Step& step, const Writer::Names& inputs, const op::Conv2dOptions& options) {
  const Pair end = options.end_padding.value_or(options.padding);
  std::vector<AttributeProto> attributes{make_attribute("strides", list(options.stride)),
                                         make_attribute("dilations", list(options.dilation)),
                                         make_attribute("group", options.groups)};
  if (options.same_padding)
    attributes.push_back(make_attribute("auto_pad", "SAME_UPPER"));
  else
    attributes.push_back(make_attribute("pads", both(list(options.padding), list(end))));
  return step.out.node("Conv", inputs, std::move(attributes));
}

std::string activated(const Step& step, const std::string& value, Activation activation) {
  switch (activation) {
    case Activation::none:
      return value;
    case Activation::relu:
      return step.out.node("Relu", {value});
    case Activation::sigmoid:
      return step.out.node("Sigmoid", {value});
    case Activation::tanh:
      return step.out.node("Tanh", {value});
    case Activation::relu6:
      return step.out.node("Clip",
                           {value, step.out.number(0, step.result().dtype), step.out.number(6, step.result().dtype)});
    case Activation::gelu:
      return step.out.node("Gelu", {value});
    case Activation::silu:
      return step.out.node("Mul", {value, step.out.node("Sigmoid", {value})});
    case Activation::hardswish:
      return step.out.node("HardSwish", {value});
  }
  return value;
}

Writer::Names conv_inputs(const Step& step, const std::string& x) {
  Writer::Names inputs{x, step.inputs[1]};
  if (step.has(2)) inputs.push_back(step.inputs[2]);
  return inputs;
}

void named(const Step& step, const std::string& value) { step.out.add("Identity", {value}, step.results); }

void conv2d(const Step& step) {
  step.fixed();
  const auto options = step.attribute<op::Conv2dOptions>();
  const Batched batched(step, 4);
  const std::string y = convolved(step, conv_inputs(step, batched.input()), options);
  finish_activated(step, batched.output(y), options.activation);
}
void conv2d_max_pool2d(const Step& step) {
  const auto options = step.attribute<op::Conv2dOptions>();
  const Batched batched(step, 4);
  const std::string y =
      activated(step, convolved(step, conv_inputs(step, batched.input()), options), options.activation);
  const Integers two{2, 2};
  named(step, batched.output(step.out.node("MaxPool", {y},
                                           {make_attribute("kernel_shape", two), make_attribute("strides", two)})));
}
void conv2d_add(const Step& step) {
  auto options = step.attribute<op::Conv2dOptions>();
  const std::string y = convolved(step, conv_inputs(step, step.inputs[0]), options);
  finish_activated(step, step.out.node("Add", {y, step.inputs[3]}), options.activation);
}
void conv2d_cat(const Step& step) {
  const auto all = step.attribute<std::vector<op::Conv2dOptions>>();
  Writer::Names parts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Writer::Names inputs{step.inputs[3 * i], step.inputs[3 * i + 1]};
    if (step.has(3 * i + 2)) inputs.push_back(step.inputs[3 * i + 2]);
    parts.push_back(activated(step, convolved(step, inputs, all[i]), all[i].activation));
  }
  step.out.add("Concat", parts, step.results, {make_attribute("axis", std::int64_t{1})});
}
void inverted_residual(const Step& step) {
  const auto options = step.attribute<op::InvertedResidualOptions>();
  const auto layer = [&](const std::string& x, std::size_t weight, const op::Conv2dOptions& own) {
    Writer::Names inputs{x, step.inputs[weight]};
    if (step.has(weight + 1)) inputs.push_back(step.inputs[weight + 1]);
    return convolved(step, inputs, own);
  };
  std::string y = step.inputs[0];
  if (step.has(1)) y = activated(step, layer(y, 1, {}), options.expand);
  y = layer(y, 3, {.stride = options.stride, .padding = options.padding, .groups = step.size(3, 0)});
  y = layer(activated(step, y, options.depthwise), 5, {});
  if (step.has(7)) y = step.out.node("Add", {y, step.inputs[7]});
  finish_activated(step, y, options.project);
}
void conv1d(const Step& step) {
  const auto options = step.attribute<op::Conv1dOptions>();
  const Batched batched(step, 3);
  std::vector<AttributeProto> attributes{make_attribute("strides", Integers{options.stride}),
                                         make_attribute("dilations", Integers{options.dilation}),
                                         make_attribute("group", options.groups)};
  if (options.same_padding)
    attributes.push_back(make_attribute("auto_pad", "SAME_UPPER"));
  else
    attributes.push_back(make_attribute("pads", Integers{options.padding, options.padding}));
  const std::string y = step.out.node("Conv", conv_inputs(step, batched.input()), std::move(attributes));
  finish_activated(step, batched.output(y), options.activation);
}
void conv3d(const Step& step) {
  const auto options = step.attribute<op::Conv3dOptions>();
  const Batched batched(step, 5);
  const Triple end = options.end_padding.value_or(options.padding);
  const std::string y = step.out.node(
      "Conv", conv_inputs(step, batched.input()),
      {make_attribute("strides", list(options.stride)), make_attribute("dilations", list(options.dilation)),
       make_attribute("group", options.groups), make_attribute("pads", both(list(options.padding), list(end)))});
  finish_activated(step, batched.output(y), options.activation);
}
void conv_transpose2d(const Step& step) {
  const auto options = step.attribute<op::ConvTranspose2dOptions>();
  const Batched batched(step, 4);
  named(step,
        batched.output(step.out.node(
            "ConvTranspose", conv_inputs(step, batched.input()),
            {make_attribute("strides", list(options.stride)), make_attribute("dilations", list(options.dilation)),
             make_attribute("group", options.groups), make_attribute("output_padding", list(options.output_padding)),
             make_attribute("pads", both(list(options.padding), list(options.padding)))})));
}

void max_pool2d(const Step& step) {
  const auto kernel = step.attribute<Pair>(0);
  const auto options = step.attribute<op::MaxPool2dOptions>(1);
  const Batched batched(step, 4);
  const Pair end = options.end_padding.value_or(options.padding);
  named(step, batched.output(step.out.node("MaxPool", {batched.input()},
                                           {make_attribute("kernel_shape", list(kernel)),
                                            make_attribute("strides", list(options.stride.value_or(kernel))),
                                            make_attribute("pads", both(list(options.padding), list(end))),
                                            make_attribute("dilations", list(options.dilation)),
                                            make_attribute("ceil_mode", std::int64_t{options.ceil_mode})})));
}
void avg_pool2d(const Step& step) {
  const auto kernel = step.attribute<Pair>(0);
  const auto options = step.attribute<op::AvgPool2dOptions>(1);
  const Batched batched(step, 4);
  const Pair end = options.end_padding.value_or(options.padding);
  named(step,
        batched.output(step.out.node("AveragePool", {batched.input()},
                                     {make_attribute("kernel_shape", list(kernel)),
                                      make_attribute("strides", list(options.stride.value_or(kernel))),
                                      make_attribute("pads", both(list(options.padding), list(end))),
                                      make_attribute("count_include_pad", std::int64_t{options.count_include_pad}),
                                      make_attribute("ceil_mode", std::int64_t{options.ceil_mode})})));
}
void adaptive_avg_pool2d(const Step& step) {
  const auto output = step.attribute<Pair>();
  const Batched batched(step, 4);
  const std::string x = batched.input();
  if (output.h == 1 && output.w == 1) return named(step, batched.output(step.out.node("GlobalAveragePool", {x})));
  const std::int64_t h = step.size(0, -2), w = step.size(0, -1);
  if (h % output.h != 0 || w % output.w != 0)
    throw Refusal(message("makes ", output.h, " x ", output.w, " of ", h, " x ", w, ", which are no even windows"), "");
  const Integers kernel{h / output.h, w / output.w};
  named(step, batched.output(step.out.node(
                  "AveragePool", {x}, {make_attribute("kernel_shape", kernel), make_attribute("strides", kernel)})));
}

std::string transposed_last(const Step& step, const std::string& x, int rank) {
  Integers order;
  for (int d = 0; d < rank; ++d) order.push_back(d);
  std::swap(order.at(order.size() - 1), order.at(order.size() - 2));
  return step.out.node("Transpose", {x}, {make_attribute("perm", order)});
}

void linear(const Step& step) {
  const auto activation = step.attribute<Activation>();
  if (step.rank() == 2) {
    Writer::Names inputs = conv_inputs(step, step.inputs[0]);
    return finish_activated(step, step.out.node("Gemm", inputs, {make_attribute("transB", std::int64_t{1})}),
                            activation);
  }
  std::string y = step.out.node("MatMul", {step.inputs[0], transposed_last(step, step.inputs[1], 2)});
  if (step.has(2)) y = step.out.node("Add", {y, step.inputs[2]});
  finish_activated(step, y, activation);
}
void matmul(const Step& step) {
  const auto options = step.attribute<op::MatmulOptions>();
  const auto turned = [&](std::size_t i, bool turn) {
    return turn && step.rank(i) > 1 ? transposed_last(step, step.inputs[i], step.rank(i)) : step.inputs[i];
  };
  step.out.add("MatMul", {turned(0, options.transpose_a), turned(1, options.transpose_b)}, step.results);
}

/// [C] of ones or zeros where weight or bias is left out.
std::string channels(const Step& step, std::size_t i, std::int64_t count, double value) {
  return step.has(i) ? step.inputs[i] : step.out.constant(full({count}, value, step.value(0).dtype));
}

void batch_norm(const Step& step) {
  const auto options = step.attribute<op::BatchNormOptions>();
  if (options.training || !step.has(3) || !step.has(4))
    throw Refusal("uses the statistics of the batch", "trace the module in evaluation");
  const std::int64_t c = step.size(0, 1);
  std::string y =
      step.out.node("BatchNormalization",
                    {step.inputs[0], channels(step, 1, c, 1), channels(step, 2, c, 0), step.inputs[3], step.inputs[4]},
                    {make_attribute("epsilon", options.epsilon)});
  if (step.has(5)) y = step.out.node("Add", {y, step.inputs[5]});
  finish_activated(step, y, options.activation);
}

std::string of_shape(const Step& step, std::size_t i, const Shape& shape, double value) {
  return step.has(i) ? step.inputs[i] : step.out.constant(full(shape, value, step.value(0).dtype));
}
void layer_norm(const Step& step) {
  const auto shape = step.attribute<Shape>(0);
  Writer::Names inputs{step.inputs[0], of_shape(step, 1, shape, 1)};
  if (step.has(2)) inputs.push_back(step.inputs[2]);
  step.out.add(
      "LayerNormalization", inputs, step.results,
      {make_attribute("axis", std::int64_t{-shape.rank()}), make_attribute("epsilon", step.attribute<double>(1))});
}
void rms_norm(const Step& step) {
  const auto shape = step.attribute<Shape>(0);
  const auto given = step.attribute<std::optional<double>>(1);
  const DType dtype = step.value(0).dtype;
  const double epsilon = given.value_or(dtype == DType::float64 ? 0x1p-52 : 0x1p-23);
  Integers axes;
  for (int d = -shape.rank(); d < 0; ++d) axes.push_back(d);
  const std::string squares = step.out.node("Mul", {step.inputs[0], step.inputs[0]});
  const std::string mean = step.out.node("ReduceMean", {squares, step.out.integers(axes)});
  const std::string length = step.out.node("Sqrt", {step.out.node("Add", {mean, step.out.number(epsilon, dtype)})});
  const Writer::Names quotient{step.inputs[0], length};
  if (!step.has(1)) return step.out.add("Div", quotient, step.results);
  step.out.add("Mul", {step.out.node("Div", quotient), step.inputs[1]}, step.results);
}
void group_norm(const Step& step) {
  const std::int64_t c = step.size(0, 1);
  step.out.add("GroupNormalization", {step.inputs[0], channels(step, 1, c, 1), channels(step, 2, c, 0)}, step.results,
               {make_attribute("num_groups", step.attribute<std::int64_t>(0)),
                make_attribute("epsilon", step.attribute<double>(1))});
}
void instance_norm(const Step& step) {
  const std::int64_t c = step.size(0, 1);
  step.out.add("InstanceNormalization", {step.inputs[0], channels(step, 1, c, 1), channels(step, 2, c, 0)},
               step.results, {make_attribute("epsilon", step.attribute<double>(0))});
}
void local_response_norm(const Step& step) {
  const auto options = step.attribute<op::LocalResponseNormOptions>();
  if (options.size % 2 == 0) throw Refusal("has an even number of channels", "ONNX counts them from another side");
  step.out.add("LRN", step.inputs, step.results,
               {make_attribute("size", options.size), make_attribute("alpha", options.alpha),
                make_attribute("beta", options.beta), make_attribute("bias", options.k)});
}

void attention(const Step& step) {
  const auto options = step.attribute<op::AttentionOptions>();
  const DType dtype = step.value(0).dtype;
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(step.size(0, -1))));
  const std::string keys = transposed_last(step, step.inputs[1], step.rank(1));
  std::string scores = step.out.node("MatMul", {step.inputs[0], keys});
  scores = step.out.node("Mul", {scores, step.out.number(scale, dtype)});
  const double none = -std::numeric_limits<double>::infinity();
  if (options.is_causal) {
    const std::int64_t l = step.size(0, -2), s = step.size(1, -2);
    const Tensor later = op::triu(full({l, s}, none, dtype), 1);
    scores = step.out.node("Add", {scores, step.out.constant(op::where(op::isnan(later), 0.0, later))});
  }
  if (step.has(3)) {
    std::string mask = step.inputs[3];
    if (step.value(3).dtype == DType::boolean)
      mask = step.out.node("Where", {mask, step.out.number(0, dtype), step.out.number(none, dtype)});
    scores = step.out.node("Add", {scores, mask});
  }
  step.out.add("MatMul", {step.out.node("Softmax", {scores}), step.inputs[2]}, step.results);
}

void resize(const Step& step, const std::string& scales, const std::string& sizes,
            const op::InterpolateOptions& options) {
  std::vector<AttributeProto> attributes;
  const bool exact = options.mode == op::Interpolation::nearest_exact;
  if (options.mode == op::Interpolation::nearest || exact) {
    attributes = {make_attribute("mode", "nearest"), make_attribute("nearest_mode", "floor"),
                  make_attribute("coordinate_transformation_mode", exact ? "tf_half_pixel_for_nn" : "asymmetric")};
    if (exact)
      attributes = {make_attribute("mode", "nearest"), make_attribute("nearest_mode", "round_prefer_ceil"),
                    make_attribute("coordinate_transformation_mode", "half_pixel")};
  } else {
    attributes = {
        make_attribute("mode", options.mode == op::Interpolation::bicubic ? "cubic" : "linear"),
        make_attribute("cubic_coeff_a", -0.75),
        make_attribute("coordinate_transformation_mode", options.align_corners ? "align_corners" : "half_pixel")};
  }
  Writer::Names inputs{step.inputs[0], "", scales};
  if (!sizes.empty()) inputs.push_back(sizes);
  step.out.add("Resize", inputs, step.results, std::move(attributes));
}
void interpolate(const Step& step) {
  resize(step, "", step.out.sizes(step.result().shape), step.attribute<op::InterpolateOptions>(1));
}
void interpolate_by(const Step& step) {
  const auto scale = step.attribute<op::Scale>(0);
  const Tensor scales = tensor<float>({1, 1, static_cast<float>(scale.h), static_cast<float>(scale.w)});
  resize(step, step.out.constant(scales), "", step.attribute<op::InterpolateOptions>(1));
}

}  // namespace

void finish_activated(const Step& step, const std::string& value, Activation activation) {
  step.out.add("Identity", {activated(step, value, activation)}, step.results);
}

void append_written_networks(EmitTable& table) {
  table["conv2d"] = conv2d;
  table["conv2d_max_pool2d"] = conv2d_max_pool2d;
  table["conv2d_add"] = conv2d_add;
  table["conv2d_cat"] = conv2d_cat;
  table["inverted_residual"] = inverted_residual;
  table["conv1d"] = conv1d;
  table["conv3d"] = conv3d;
  table["conv_transpose2d"] = conv_transpose2d;
  table["max_pool2d"] = max_pool2d;
  table["avg_pool2d"] = avg_pool2d;
  table["adaptive_avg_pool2d"] = adaptive_avg_pool2d;
  table["linear"] = linear;
  table["matmul"] = matmul;
  table["batch_norm"] = batch_norm;
  table["layer_norm"] = layer_norm;
  table["rms_norm"] = rms_norm;
  table["group_norm"] = group_norm;
  table["instance_norm"] = instance_norm;
  table["local_response_norm"] = local_response_norm;
  table["scaled_dot_product_attention"] = attention;
  table["interpolate"] = interpolate;
  table["interpolate_by"] = interpolate_by;
  table["einsum"] = [](const Step& step) {
    if (step.value(0).dtype == DType::bfloat16) throw Refusal("has elements of bfloat16", "ONNX's Einsum takes others");
    step.out.add("Einsum", step.inputs, step.results,
                 {make_attribute("equation", step.attribute<std::string>().c_str())});
  };
}

}  // namespace tern::onnx
