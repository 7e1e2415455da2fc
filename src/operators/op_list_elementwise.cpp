#include "operators/op_function.hpp"
#include "operators/op_list.hpp"
#include "tern/operators/bits.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/thresholds.hpp"

namespace tern::operators {

namespace {

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using WithNumber = Tensor (*)(const Tensor&, double);
using OfNumber = Tensor (*)(double, const Tensor&);
using Limits = Tensor (*)(const Tensor&, double, double);
using Mixture = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);

void append_arithmetic(OpList& ops) {
  for (const auto& [name, function] :
       std::initializer_list<std::pair<const char*, Binary>>{{"add", add},
                                                             {"sub", sub},
                                                             {"mul", mul},
                                                             {"div", div},
                                                             {"maximum", maximum},
                                                             {"minimum", minimum},
                                                             {"fmod", fmod},
                                                             {"remainder", remainder},
                                                             {"floor_divide", floor_divide},
                                                             {"bitwise_and", bitwise_and},
                                                             {"bitwise_or", bitwise_or},
                                                             {"bitwise_xor", bitwise_xor},
                                                             {"bitwise_left_shift", bitwise_left_shift},
                                                             {"bitwise_right_shift", bitwise_right_shift},
                                                             {"logical_and", logical_and},
                                                             {"logical_or", logical_or},
                                                             {"logical_xor", logical_xor},
                                                             {"equal", equal},
                                                             {"not_equal", not_equal},
                                                             {"less", less},
                                                             {"less_equal", less_equal},
                                                             {"greater", greater},
                                                             {"greater_equal", greater_equal},
                                                             {"atan2", atan2},
                                                             {"prelu", prelu}})
    ops.push_back(make_op(name, function));
  ops.push_back(make_op("pow", static_cast<Binary>(pow), {}, Mixed::widens));
  ops.push_back(make_op("add_all", add_all));
  ops.push_back(make_op("add_number", static_cast<WithNumber>(add), {"b"}));
  ops.push_back(make_op("sub_number", static_cast<WithNumber>(sub), {"b"}));
  ops.push_back(make_op("mul_number", static_cast<WithNumber>(mul), {"b"}));
  ops.push_back(make_op("div_number", static_cast<WithNumber>(div), {"b"}));
  ops.push_back(make_op("number_sub", static_cast<OfNumber>(sub), {"a"}));
  ops.push_back(make_op("number_div", static_cast<OfNumber>(div), {"a"}));
  ops.push_back(make_op("pow_number", static_cast<WithNumber>(pow), {"exponent"}, Mixed::widens));
  ops.push_back(make_op("isclose", isclose, {"rtol", "atol", "equal_nan"}));
  ops.push_back(make_op("where", static_cast<Mixture>(where)));
  ops.push_back(make_op("masked_fill", masked_fill, {"value"}));
  ops.push_back(make_op("clamp", static_cast<Limits>(clamp), {"low", "high"}));
  ops.push_back(make_op("clamp_between", static_cast<Mixture>(clamp)));
  ops.push_back(make_op("lerp", static_cast<Mixture>(lerp)));
  ops.push_back(make_op("nan_to_num", nan_to_num, {"nan", "positive_infinity", "negative_infinity"}));
}

constexpr std::pair<const char*, Unary> functions[]{
    {"neg", neg},
    {"log", log},
    {"sqrt", sqrt},
    {"abs", abs},
    {"sin", sin},
    {"cos", cos},
    {"erf", erf},
    {"floor", floor},
    {"ceil", ceil},
    {"round", round},
    {"trunc", trunc},
    {"tan", tan},
    {"log1p", log1p},
    {"square", square},
    {"sign", sign},
    {"isnan", isnan},
    {"isinf", isinf},
    {"isfinite", isfinite},
    {"bitwise_not", bitwise_not},
    {"logical_not", logical_not},
    {"log2", log2},
    {"log10", log10},
    {"asin", asin},
    {"acos", acos},
    {"atan", atan},
    {"asinh", asinh},
    {"acosh", acosh},
    {"atanh", atanh},
    {"relu", relu},
    {"sigmoid", sigmoid},
    {"tanh", tanh},
    {"softplus", softplus},
    {"gelu", gelu},
    {"gelu_tanh", gelu_tanh},
    {"selu", selu},
    {"relu6", relu6},
    {"hardsigmoid", hardsigmoid},
    {"hardswish", hardswish},
    {"silu", silu},
    {"mish", mish},
    {"logsigmoid", logsigmoid},
    {"softsign", softsign},
    {"tanhshrink", tanhshrink},
};
// The range of float16 ends at 65504.
constexpr std::pair<const char*, Unary> widening[]{
    {"exp", exp},     {"exp2", exp2}, {"expm1", expm1}, {"sinh", sinh}, {"cosh", cosh}, {"reciprocal", reciprocal},
    {"rsqrt", rsqrt},
};

void append_functions(OpList& ops) {
  for (const auto& [name, function] : functions) ops.push_back(make_op(name, function));
  for (const auto& [name, function] : widening) ops.push_back(make_op(name, function, {}, Mixed::widens));
  ops.push_back(make_op("leaky_relu", leaky_relu, {"negative_slope"}));
  ops.push_back(make_op("elu", elu, {"alpha"}));
  ops.push_back(make_op("celu", celu, {"alpha"}));
  ops.push_back(make_op("threshold", threshold, {"threshold", "value"}));
  ops.push_back(make_op("hardtanh", hardtanh, {"low", "high"}));
  ops.push_back(make_op("shrink", shrink, {"lambda", "bias"}));
  ops.push_back(make_op("hardshrink", hardshrink, {"lambda"}));
  ops.push_back(make_op("softshrink", softshrink, {"lambda"}));
  ops.push_back(make_op("glu", glu, {"dim"}));
  ops.push_back(make_op("softmax", softmax, {"dim", "dtype"}, Mixed::widens));
  ops.push_back(make_op("log_softmax", log_softmax, {"dim", "dtype"}, Mixed::widens));
}

void append_reductions(OpList& ops) {
  ops.push_back(make_op("sum", sum, {"dims", "keep_dims", "dtype"}, Mixed::widens));
  ops.push_back(make_op("mean", mean, {"dims", "keep_dims", "dtype"}));
  ops.push_back(make_op("var", var, {"dims", "correction", "keep_dims"}));
  ops.push_back(make_op("std", std, {"dims", "correction", "keep_dims"}));
  ops.push_back(make_op("max", max, {"dims", "keep_dims"}));
  ops.push_back(make_op("min", min, {"dims", "keep_dims"}));
  ops.push_back(make_op("prod", prod, {"dims", "keep_dims", "dtype"}, Mixed::widens));
  ops.push_back(make_op("norm", norm, {"order", "dims", "keep_dims"}, Mixed::widens));
  ops.push_back(make_op("logsumexp", logsumexp, {"dims", "keep_dims"}, Mixed::widens));
  ops.push_back(make_op("any", any, {"dims", "keep_dims"}));
  ops.push_back(make_op("all", all, {"dims", "keep_dims"}));
  ops.push_back(make_op("sum_to", sum_to, {"shape"}));
  ops.push_back(make_op("cumsum", cumsum, {"dim", "dtype"}, Mixed::widens));
  ops.push_back(make_op("cumprod", cumprod, {"dim", "dtype"}, Mixed::widens));
  ops.push_back(make_op("argmax", argmax, {"dim", "keep_dims"}));
  ops.push_back(make_op("argmin", argmin, {"dim", "keep_dims"}));
}

}  // namespace

void append_elementwise(OpList& ops) {
  append_arithmetic(ops);
  append_functions(ops);
  append_reductions(ops);
}

}  // namespace tern::operators
