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
  append<"add">(ops, static_cast<Binary>(add));
  append<"sub">(ops, static_cast<Binary>(sub));
  append<"mul">(ops, static_cast<Binary>(mul));
  append<"mul_add">(ops, mul_add);
  append<"div">(ops, static_cast<Binary>(div));
  append<"maximum">(ops, static_cast<Binary>(maximum));
  append<"minimum">(ops, static_cast<Binary>(minimum));
  append<"fmod">(ops, static_cast<Binary>(fmod));
  append<"remainder">(ops, static_cast<Binary>(remainder));
  append<"floor_divide">(ops, static_cast<Binary>(floor_divide));
  append<"bitwise_and">(ops, bitwise_and);
  append<"bitwise_or">(ops, bitwise_or);
  append<"bitwise_xor">(ops, bitwise_xor);
  append<"bitwise_left_shift">(ops, bitwise_left_shift);
  append<"bitwise_right_shift">(ops, bitwise_right_shift);
  append<"logical_and">(ops, logical_and);
  append<"logical_or">(ops, logical_or);
  append<"logical_xor">(ops, logical_xor);
  append<"equal">(ops, static_cast<Binary>(equal));
  append<"not_equal">(ops, static_cast<Binary>(not_equal));
  append<"less">(ops, static_cast<Binary>(less));
  append<"less_equal">(ops, static_cast<Binary>(less_equal));
  append<"greater">(ops, static_cast<Binary>(greater));
  append<"greater_equal">(ops, static_cast<Binary>(greater_equal));
  append<"atan2">(ops, atan2);
  append<"prelu">(ops, prelu);
  append<"pow">(ops, static_cast<Binary>(pow), {}, Mixed::widens);
  append<"add_all">(ops, add_all);
  append<"add_number">(ops, static_cast<WithNumber>(add), {"b"});
  append<"sub_number">(ops, static_cast<WithNumber>(sub), {"b"});
  append<"mul_number">(ops, static_cast<WithNumber>(mul), {"b"});
  append<"div_number">(ops, static_cast<WithNumber>(div), {"b"});
  append<"number_sub">(ops, static_cast<OfNumber>(sub), {"a"});
  append<"number_div">(ops, static_cast<OfNumber>(div), {"a"});
  append<"pow_number">(ops, static_cast<WithNumber>(pow), {"exponent"}, Mixed::widens);
  append<"isclose">(ops, isclose, {"rtol", "atol", "equal_nan"});
  append<"where">(ops, static_cast<Mixture>(where));
  append<"masked_fill">(ops, masked_fill, {"value"});
  append<"clamp">(ops, static_cast<Limits>(clamp), {"low", "high"});
  append<"clamp_between">(ops, static_cast<Mixture>(clamp));
  append<"lerp">(ops, static_cast<Mixture>(lerp));
  append<"nan_to_num">(ops, nan_to_num, {"nan", "positive_infinity", "negative_infinity"});
}

// The range of float16 ends at 65504.

void append_functions(OpList& ops) {
  append<"neg">(ops, neg);
  append<"log">(ops, log);
  append<"sqrt">(ops, sqrt);
  append<"abs">(ops, abs);
  append<"sin">(ops, sin);
  append<"cos">(ops, cos);
  append<"erf">(ops, erf);
  append<"floor">(ops, floor);
  append<"ceil">(ops, ceil);
  append<"round">(ops, round);
  append<"trunc">(ops, trunc);
  append<"tan">(ops, tan);
  append<"log1p">(ops, log1p);
  append<"square">(ops, square);
  append<"sign">(ops, sign);
  append<"isnan">(ops, isnan);
  append<"isinf">(ops, isinf);
  append<"isfinite">(ops, isfinite);
  append<"bitwise_not">(ops, bitwise_not);
  append<"logical_not">(ops, logical_not);
  append<"log2">(ops, log2);
  append<"log10">(ops, log10);
  append<"asin">(ops, asin);
  append<"acos">(ops, acos);
  append<"atan">(ops, atan);
  append<"asinh">(ops, asinh);
  append<"acosh">(ops, acosh);
  append<"atanh">(ops, atanh);
  append<"relu">(ops, relu);
  append<"sigmoid">(ops, sigmoid);
  append<"tanh">(ops, tanh);
  append<"softplus">(ops, static_cast<Unary>(softplus));
  append<"gelu">(ops, gelu);
  append<"gelu_tanh">(ops, gelu_tanh);
  append<"selu">(ops, selu);
  append<"relu6">(ops, relu6);
  append<"hardsigmoid">(ops, hardsigmoid);
  append<"hardswish">(ops, hardswish);
  append<"silu">(ops, silu);
  append<"mish">(ops, mish);
  append<"logsigmoid">(ops, logsigmoid);
  append<"softsign">(ops, softsign);
  append<"tanhshrink">(ops, tanhshrink);
  append<"exp">(ops, exp, {}, Mixed::widens);
  append<"exp2">(ops, exp2, {}, Mixed::widens);
  append<"expm1">(ops, expm1, {}, Mixed::widens);
  append<"sinh">(ops, sinh, {}, Mixed::widens);
  append<"cosh">(ops, cosh, {}, Mixed::widens);
  append<"reciprocal">(ops, reciprocal, {}, Mixed::widens);
  append<"rsqrt">(ops, rsqrt, {}, Mixed::widens);
  append<"leaky_relu">(ops, leaky_relu, {"negative_slope"});
  append<"elu">(ops, elu, {"alpha"});
  append<"celu">(ops, celu, {"alpha"});
  append<"threshold">(ops, threshold, {"threshold", "value"});
  append<"hardtanh">(ops, hardtanh, {"low", "high"});
  append<"shrink">(ops, shrink, {"lambda", "bias"});
  append<"hardshrink">(ops, hardshrink, {"lambda"});
  append<"softshrink">(ops, softshrink, {"lambda"});
  append<"glu">(ops, glu, {"dim"});
  append<"softmax">(ops, softmax, {"dim", "dtype"}, Mixed::widens);
  append<"log_softmax">(ops, log_softmax, {"dim", "dtype"}, Mixed::widens);
}

void append_reductions(OpList& ops) {
  append<"sum">(ops, sum, {"dims", "keep_dims", "dtype"}, Mixed::widens);
  append<"mean">(ops, mean, {"dims", "keep_dims", "dtype"});
  append<"var">(ops, var, {"dims", "correction", "keep_dims"});
  append<"std">(ops, std, {"dims", "correction", "keep_dims"});
  append<"max">(ops, max, {"dims", "keep_dims"});
  append<"min">(ops, min, {"dims", "keep_dims"});
  append<"prod">(ops, prod, {"dims", "keep_dims", "dtype"}, Mixed::widens);
  append<"norm">(ops, norm, {"order", "dims", "keep_dims"}, Mixed::widens);
  append<"logsumexp">(ops, logsumexp, {"dims", "keep_dims"}, Mixed::widens);
  append<"any">(ops, any, {"dims", "keep_dims"});
  append<"all">(ops, all, {"dims", "keep_dims"});
  append<"sum_to">(ops, sum_to, {"shape"});
  append<"cumsum">(ops, cumsum, {"dim", "dtype"}, Mixed::widens);
  append<"cumprod">(ops, cumprod, {"dim", "dtype"}, Mixed::widens);
  append<"argmax">(ops, argmax, {"dim", "keep_dims"});
  append<"argmin">(ops, argmin, {"dim", "keep_dims"});
}

}  // namespace

void append_elementwise(OpList& ops) {
  append_arithmetic(ops);
  append_functions(ops);
  append_reductions(ops);
}

}  // namespace tern::operators
