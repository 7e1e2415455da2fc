#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

/// Before operator set 13 the dimensions from the axis on were one.
template <Tensor (*function)(const Tensor&, std::int64_t, std::optional<DType>)>
Results softmax(const Call& call) {
  const Tensor& x = call.input(0);
  if (call.opset() >= 13) return {function(x, axis_of(call, call.integer("axis", -1), x.rank()), {})};
  const std::int64_t given = call.integer("axis", 1);
  const int axis = given == x.rank() ? x.rank() : axis_of(call, given, x.rank());
  if (axis == x.rank() - 1) return {function(x, axis, {})};
  Shape rows(x.shape().begin(), x.shape().begin() + axis);
  rows.push_back(-1);
  return {op::reshape(function(op::reshape(x, rows), axis, {}), x.shape())};
}

Tensor one_hot_largest(const Tensor& x, int axis) {
  const Tensor position = op::argmax(x, axis, true);
  const Tensor zeros = op::expand(full({}, 0, x.dtype()), x.shape());
  return op::scatter(zeros, axis, position, op::expand(full({}, 1, x.dtype()), position.shape()));
}
Results hardmax(const Call& call) {
  const Tensor& x = call.input(0);
  if (call.opset() >= 13) return {one_hot_largest(x, axis_of(call, call.integer("axis", -1), x.rank()))};
  const int axis = axis_of(call, call.integer("axis", 1), x.rank());
  return {op::reshape(one_hot_largest(op::flatten(x, axis, -1), axis), x.shape())};
}

Results gelu(const Call& call) {
  const std::string form = call.text("approximate", "none");
  if (form != "none" && form != "tanh") call.refuse(message("has approximate '", form, "'"), "none or tanh");
  return {form == "tanh" ? op::gelu_tanh(call.input(0)) : op::gelu(call.input(0))};
}

Results hard_sigmoid(const Call& call) {
  const double alpha = call.number("alpha", 0.2f), beta = call.number("beta", 0.5);
  return {op::clamp(op::add(op::mul(call.input(0), alpha), beta), 0, 1)};
}

Results selu(const Call& call) {
  const double alpha = call.number("alpha", 1.67326319217681884765625);
  const double gamma = call.number("gamma", 1.05070102214813232421875);
  return {op::mul(op::elu(call.input(0), alpha), gamma)};
}

/// The slope has one number, or broadcasts towards x.
Results prelu(const Call& call) {
  const Tensor& x = call.input(0);
  Tensor slope = call.input(1);
  // Before operator set 7 one number stood for each channel.
  if (call.opset() < 7 && slope.rank() == 1 && slope.size(0) > 1) {
    Shape channels = Shape::filled(x.rank(), 1);
    channels[1] = -1;
    slope = op::reshape(slope, channels);
  }
  check_broadcasts(call, slope, x.shape());
  return {op::where(op::less(x, 0.0), op::mul(x, slope), x)};
}

Results shrink(const Call& call) {
  const Tensor& x = call.input(0);
  const double bias = call.number("bias", 0), lambda = call.number("lambd", 0.5);
  const Tensor low = op::where(op::less(x, -lambda), op::add(x, bias), 0.0);
  return {op::where(op::greater(x, lambda), op::sub(x, bias), low)};
}

Results thresholded_relu(const Call& call) {
  const Tensor& x = call.input(0);
  return {op::where(op::greater(x, call.number("alpha", 1)), x, 0.0)};
}

Results swish(const Call& call) {
  const Tensor& x = call.input(0);
  const double alpha = call.number("alpha", 1);
  return {alpha == 1 ? op::silu(x) : op::mul(x, op::sigmoid(op::mul(x, alpha)))};
}

}  // namespace

void append_activations(Table& table) {
  table["Relu"] = [](const Call& call) {
    const Tensor& x = call.input(0);
    return Results{is_floating(x.dtype()) ? op::relu(x) : op::maximum(x, 0.0)};
  };
  table["LeakyRelu"] = [](const Call& call) {
    return Results{op::leaky_relu(call.input(0), call.number("alpha", 0.01f))};
  };
  table["Elu"] = [](const Call& call) { return Results{op::elu(call.input(0), call.number("alpha", 1))}; };
  table["Celu"] = [](const Call& call) { return Results{op::celu(call.input(0), call.number("alpha", 1))}; };
  table["Softplus"] = [](const Call& call) { return Results{op::softplus(call.input(0))}; };
  table["Softsign"] = [](const Call& call) {
    return Results{op::div(call.input(0), op::add(op::abs(call.input(0)), 1.0))};
  };
  table["HardSwish"] = [](const Call& call) { return Results{op::hardswish(call.input(0))}; };
  table["Mish"] = [](const Call& call) { return Results{op::mish(call.input(0))}; };
  table["Softmax"] = softmax<op::softmax>;
  table["LogSoftmax"] = softmax<op::log_softmax>;
  table["Hardmax"] = hardmax;
  table["Gelu"] = gelu;
  table["HardSigmoid"] = hard_sigmoid;
  table["Selu"] = selu;
  table["PRelu"] = prelu;
  table["Shrink"] = shrink;
  table["ThresholdedRelu"] = thresholded_relu;
  table["Swish"] = swish;
}

}  // namespace tern::onnx
