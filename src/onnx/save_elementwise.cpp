#include <cmath>
#include <numbers>
#include <numeric>

#include "onnx/writer.hpp"

namespace tern::onnx {

namespace {

// The node of each name, with the inputs as they are.
struct Same {
  const char *op, *type;
};
constexpr Same same[]{{"add", "Add"},
                      {"sub", "Sub"},
                      {"mul", "Mul"},
                      {"div", "Div"},
                      {"maximum", "Max"},
                      {"minimum", "Min"},
                      {"pow", "Pow"},
                      {"add_all", "Sum"},
                      {"logical_and", "And"},
                      {"logical_or", "Or"},
                      {"logical_xor", "Xor"},
                      {"logical_not", "Not"},
                      {"equal", "Equal"},
                      {"less", "Less"},
                      {"greater", "Greater"},
                      {"less_equal", "LessOrEqual"},
                      {"where", "Where"},
                      {"isnan", "IsNaN"},
                      {"isinf", "IsInf"},
                      {"greater_equal", "GreaterOrEqual"},
                      {"neg", "Neg"},
                      {"exp", "Exp"},
                      {"log", "Log"},
                      {"sqrt", "Sqrt"},
                      {"abs", "Abs"},
                      {"sin", "Sin"},
                      {"cos", "Cos"},
                      {"tan", "Tan"},
                      {"asin", "Asin"},
                      {"acos", "Acos"},
                      {"atan", "Atan"},
                      {"sinh", "Sinh"},
                      {"cosh", "Cosh"},
                      {"asinh", "Asinh"},
                      {"acosh", "Acosh"},
                      {"atanh", "Atanh"},
                      {"erf", "Erf"},
                      {"floor", "Floor"},
                      {"ceil", "Ceil"},
                      {"round", "Round"},
                      {"sign", "Sign"},
                      {"relu", "Relu"},
                      {"sigmoid", "Sigmoid"},
                      {"tanh", "Tanh"},
                      {"softplus", "Softplus"},
                      {"selu", "Selu"},
                      {"mish", "Mish"},
                      {"hardswish", "HardSwish"},
                      {"gelu", "Gelu"},
                      {"copy", "Identity"},
                      {"softsign", "Softsign"},
                      {"reciprocal", "Reciprocal"},
                      {"bitwise_and", "BitwiseAnd"},
                      {"bitwise_or", "BitwiseOr"},
                      {"bitwise_xor", "BitwiseXor"},
                      {"bitwise_not", "BitwiseNot"}};

template <std::size_t i>
void emit_same(const Step& step) {
  // Logic of ONNX takes bools alone.
  std::vector<std::string> inputs = step.inputs;
  const std::string_view type = same[i].type;
  if (type == "And" || type == "Or" || type == "Xor" || type == "Not")
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (step.value(k).dtype != DType::boolean)
        inputs[k] = step.out.node("Cast", {inputs[k]}, {make_attribute("to", element_of(DType::boolean))});
  step.out.add(same[i].type, inputs, step.results);
}

/// x and a number: "add_number" has the number behind x, "number_sub" in front.
template <const char* type, bool front = false>
void with_number(const Step& step) {
  const std::string number = step.out.number(step.attribute<double>(), step.value(0).dtype);
  step.out.add(type, front ? Writer::Names{number, step.inputs[0]} : Writer::Names{step.inputs[0], number},
               step.results);
}
constexpr char add_type[] = "Add", sub_type[] = "Sub", mul_type[] = "Mul", div_type[] = "Div", pow_type[] = "Pow";

void clamp(const Step& step) {
  const DType dtype = step.value(0).dtype;
  const std::string low = step.out.number(step.attribute<double>(0), dtype);
  step.out.add("Clip", {step.inputs[0], low, step.out.number(step.attribute<double>(1), dtype)}, step.results);
}

constexpr char leaky[] = "LeakyRelu", elu[] = "Elu", celu[] = "Celu";
template <const char* type>
void with_alpha(const Step& step) {
  if (std::string_view(type) == celu && step.value(0).dtype != DType::float32)
    throw Refusal(message("has elements of ", step.value(0).dtype), "ONNX's Celu takes float32");
  step.out.add(type, step.inputs, step.results, {make_attribute("alpha", step.attribute<double>())});
}

template <const char* type>
void softmax(const Step& step) {
  std::string x = step.inputs[0];
  if (const auto dtype = step.attribute<std::optional<DType>>(1); dtype && *dtype != step.value(0).dtype)
    x = step.out.node("Cast", {x}, {make_attribute("to", element_of(*dtype))});
  step.out.add(type, {x}, step.results, {make_attribute("axis", step.attribute<std::int64_t>(0))});
}
constexpr char softmax_type[] = "Softmax", log_softmax_type[] = "LogSoftmax";

/// Sums and the like; what they leave in another dtype is cast.
template <const char* type, bool has_dtype>
void reduce(const Step& step) {
  std::string x = step.inputs[0];
  DType dtype = step.value(0).dtype;
  if (dtype != step.result().dtype) {
    dtype = step.result().dtype;
    x = step.out.node("Cast", {x}, {make_attribute("to", element_of(dtype))});
  }
  const std::vector<std::int64_t> axes = axes_or_all(step.attribute<Dims>(0), step.rank());
  const std::int64_t keep = step.attribute<bool>(1);
  step.out.add(type, {x, step.out.integers(axes)}, step.results, {make_attribute("keepdims", keep)});
}
constexpr char sum_type[] = "ReduceSum", mean_type[] = "ReduceMean", max_type[] = "ReduceMax", min_type[] = "ReduceMin",
               prod_type[] = "ReduceProd", logsumexp_type[] = "ReduceLogSumExp";

void norm(const Step& step) {
  const auto order = step.attribute<double>(0);
  if (order != 1 && order != 2) throw Refusal(message("has order ", order), "orders 1 and 2 can be written");
  const std::int64_t keep = step.attribute<bool>(2);
  step.out.add(order == 1 ? "ReduceL1" : "ReduceL2",
               {step.inputs[0], step.out.integers(axes_or_all(step.attribute<Dims>(1), step.rank()))}, step.results,
               {make_attribute("keepdims", keep)});
}

template <const char* type>
void position(const Step& step) {
  const std::int64_t keep = step.attribute<bool>(1);
  step.out.add(type, step.inputs, step.results,
               {make_attribute("axis", step.attribute<std::int64_t>(0)), make_attribute("keepdims", keep)});
}
constexpr char argmax_type[] = "ArgMax", argmin_type[] = "ArgMin";

template <bool root>
void variance(const Step& step) {
  const std::vector<std::int64_t> axes = axes_or_all(step.attribute<Dims>(0), step.rank());
  double count = 1;
  for (const std::int64_t axis : axes) count *= static_cast<double>(step.size(0, axis));
  const auto divisor = count - static_cast<double>(step.attribute<std::int64_t>(1));
  const std::int64_t keep = step.attribute<bool>(2);
  const std::string of = step.out.integers(axes);
  const std::string mean = step.out.node("ReduceMean", {step.inputs[0], of});
  const std::string centred = step.out.node("Sub", {step.inputs[0], mean});
  const std::string squares = step.out.node("ReduceSumSquare", {centred, of}, {make_attribute("keepdims", keep)});
  const Writer::Names quotient{squares, step.out.number(divisor, step.value(0).dtype)};
  if (!root) return step.out.add("Div", quotient, step.results);
  step.out.add("Sqrt", {step.out.node("Div", quotient)}, step.results);
}

void cumsum(const Step& step) {
  std::string x = step.inputs[0];
  if (step.value(0).dtype != step.result().dtype)
    x = step.out.node("Cast", {x}, {make_attribute("to", element_of(step.result().dtype))});
  step.out.add("CumSum", {x, step.out.number(static_cast<double>(step.attribute<std::int64_t>(0)), DType::int64)},
               step.results);
}

std::string one(const Step& step, double value) { return step.out.number(value, step.value(0).dtype); }

}  // namespace

std::vector<std::int64_t> axes_or_all(const Dims& dims, int rank) {
  std::vector<std::int64_t> axes(dims.begin(), dims.end());
  if (!axes.empty()) return axes;
  axes.resize(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

void append_written_elementwise(EmitTable& table) {
  [&]<std::size_t... i>(std::index_sequence<i...>) { ((table[same[i].op] = emit_same<i>), ...); }
  (std::make_index_sequence<std::size(same)>{});
  table["add_number"] = with_number<add_type>;
  table["sub_number"] = with_number<sub_type>;
  table["mul_number"] = with_number<mul_type>;
  table["div_number"] = with_number<div_type>;
  table["pow_number"] = with_number<pow_type>;
  table["number_sub"] = with_number<sub_type, true>;
  table["number_div"] = with_number<div_type, true>;
  table["clamp"] = clamp;
  table["leaky_relu"] = with_alpha<leaky>;
  table["elu"] = with_alpha<elu>;
  table["celu"] = with_alpha<celu>;
  table["softmax"] = softmax<softmax_type>;
  table["log_softmax"] = softmax<log_softmax_type>;
  table["sum"] = reduce<sum_type, true>;
  table["mean"] = reduce<mean_type, true>;
  table["prod"] = reduce<prod_type, true>;
  table["max"] = reduce<max_type, false>;
  table["min"] = reduce<min_type, false>;
  table["logsumexp"] = reduce<logsumexp_type, false>;
  table["norm"] = norm;
  table["argmax"] = position<argmax_type>;
  table["argmin"] = position<argmin_type>;
  table["var"] = variance<false>;
  table["std"] = variance<true>;
  table["cumsum"] = cumsum;
  table["not_equal"] = [](const Step& step) {
    step.out.add("Not", {step.out.node("Equal", step.inputs)}, step.results);
  };
  table["gelu_tanh"] = [](const Step& step) {
    step.out.add("Gelu", step.inputs, step.results, {make_attribute("approximate", "tanh")});
  };
  table["silu"] = [](const Step& step) {
    step.out.add("Mul", {step.inputs[0], step.out.node("Sigmoid", step.inputs)}, step.results);
  };
  table["relu6"] = [](const Step& step) {
    step.out.add("Clip", {step.inputs[0], one(step, 0), one(step, 6)}, step.results);
  };
  table["hardsigmoid"] = [](const Step& step) {
    step.out.add("HardSigmoid", step.inputs, step.results,
                 {make_attribute("alpha", 1.0 / 6), make_attribute("beta", 0.5)});
  };
  table["logsigmoid"] = [](const Step& step) {
    step.out.add("Neg", {step.out.node("Softplus", {step.out.node("Neg", step.inputs)})}, step.results);
  };
  table["square"] = [](const Step& step) { step.out.add("Mul", {step.inputs[0], step.inputs[0]}, step.results); };
  table["rsqrt"] = [](const Step& step) {
    step.out.add("Reciprocal", {step.out.node("Sqrt", step.inputs)}, step.results);
  };
  table["log1p"] = [](const Step& step) {
    step.out.add("Log", {step.out.node("Add", {step.inputs[0], one(step, 1)})}, step.results);
  };
  table["expm1"] = [](const Step& step) {
    step.out.add("Sub", {step.out.node("Exp", step.inputs), one(step, 1)}, step.results);
  };
  table["exp2"] = [](const Step& step) { step.out.add("Pow", {one(step, 2), step.inputs[0]}, step.results); };
  table["log2"] = [](const Step& step) {
    step.out.add("Div", {step.out.node("Log", step.inputs), one(step, std::numbers::ln2)}, step.results);
  };
  table["log10"] = [](const Step& step) {
    step.out.add("Div", {step.out.node("Log", step.inputs), one(step, std::numbers::ln10)}, step.results);
  };
  table["trunc"] = [](const Step& step) {
    const std::string size = step.out.node("Floor", {step.out.node("Abs", step.inputs)});
    step.out.add("Mul", {step.out.node("Sign", step.inputs), size}, step.results);
  };
  table["fmod"] = [](const Step& step) {
    step.out.add("Mod", step.inputs, step.results, {make_attribute("fmod", std::int64_t{1})});
  };
  table["remainder"] = [](const Step& step) {
    if (!is_floating(step.value(0).dtype)) return step.out.add("Mod", step.inputs, step.results);
    // What is left of a division towards 0, moved to the side of the divisor.
    const std::string rest = step.out.node("Mod", step.inputs, {make_attribute("fmod", std::int64_t{1})});
    const std::string zero = one(step, 0);
    const std::string other_side =
        step.out.node("Xor", {step.out.node("Less", {rest, zero}), step.out.node("Less", {step.inputs[1], zero})});
    const std::string some = step.out.node("Not", {step.out.node("Equal", {rest, zero})});
    const std::string moved = step.out.node("Add", {rest, step.inputs[1]});
    step.out.add("Where", {step.out.node("And", {some, other_side}), moved, rest}, step.results);
  };
  table["masked_fill"] = [](const Step& step) {
    step.out.add("Where", {step.inputs[1], one(step, step.attribute<double>()), step.inputs[0]}, step.results);
  };
  table["clamp_between"] = [](const Step& step) {
    const std::string raised = step.out.node("Max", {step.inputs[0], step.inputs[1]});
    step.out.add("Min", {raised, step.inputs[2]}, step.results);
  };
  table["prelu"] = [](const Step& step) {
    std::string slope = step.inputs[1];
    if (step.rank(1) == 1 && step.size(1, 0) > 1) {
      std::vector<std::int64_t> shape(static_cast<std::size_t>(step.rank()) - 1, 1);
      shape[0] = step.size(1, 0);
      slope = step.out.node("Reshape", {slope, step.out.integers(shape)});
    }
    step.out.add("PRelu", {step.inputs[0], slope}, step.results);
  };
}

}  // namespace tern::onnx
