// Arithmetic and functions, element by element.

#include <cmath>

#include "onnx/model.hpp"
#include "onnx/narrow.hpp"
#include "onnx/table.hpp"

namespace tern::onnx {

Tensor second_input(const Call& call) {
  const Tensor& b = call.input(1);
  if (call.opset() >= 7) return b;
  call.ignore({"consumed_inputs"});
  const bool broadcasts = call.integer("broadcast", 0) != 0;
  if (!call.has_attribute("axis")) return b;
  const int rank = call.input(0).rank(), axis = axis_of(call, call.integer("axis"), rank);
  if (!broadcasts || axis + b.rank() > rank) call.refuse("has an axis that does not fit", "repair the file");
  Shape shape = b.shape();
  for (int d = axis + b.rank(); d < rank; ++d) shape.push_back(1);
  return op::reshape(b, shape);
}

Tensor wrapped(const Tensor& given, DType dtype) {
  if (given.dtype() == dtype) return given;
  return wrapped_to(given, static_cast<int>(8 * size_of(dtype)), dtype != DType::uint8, dtype);
}

namespace {

/// Operators compute with int8 as int32, and wrap around.
Tensor widened(const Tensor& x) { return x.dtype() == DType::int8 ? op::cast(x, DType::int32) : x; }
Tensor narrowed(const Tensor& x, DType dtype) {
  return dtype != DType::int8 || x.dtype() == dtype ? x : wrapped(x, dtype);
}

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

Operator unary(Unary function) {
  return [function](const Call& call) {
    call.ignore({"consumed_inputs"});
    const Tensor& x = call.input(0);
    return Results{narrowed(function(widened(x)), x.dtype())};
  };
}
Operator binary(Binary function) {
  return [function](const Call& call) {
    const Tensor& a = call.input(0);
    return Results{narrowed(function(widened(a), widened(second_input(call))), a.dtype())};
  };
}
/// Of one input or more.
Operator folded(Binary function) {
  return [function](const Call& call) {
    Tensor result = widened(call.input(0));
    for (int i = 1; i < call.inputs(); ++i) result = function(result, widened(call.input(i)));
    return Results{narrowed(result, call.input(0).dtype())};
  };
}

Results mean(const Call& call) {
  Tensor sum = call.input(0);
  for (int i = 1; i < call.inputs(); ++i) sum = op::add(sum, call.input(i));
  return {op::div(sum, call.inputs())};
}

Results mod(const Call& call) {
  const bool fmod = call.integer("fmod", 0) != 0;
  const Tensor a = widened(call.input(0)), b = widened(call.input(1));
  return {narrowed(fmod ? op::fmod(a, b) : op::remainder(a, b), call.input(0).dtype())};
}

/// By squares, exact where the result fits.
Tensor integer_power(const Tensor& x, int exponent) {
  Tensor square = x, result;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = result.defined() ? op::mul(result, square) : square;
    if (exponent > 1) square = op::mul(square, square);
  }
  return result.defined() ? result : op::expand(full({}, 1, x.dtype()), x.shape());
}

/// The exponent may have another dtype; the result has that of the base.
Results power(const Call& call) {
  const Tensor &x = call.input(0), y = second_input(call);
  if (call.knows(1) && y.numel() == 1 && is_floating(x.dtype()) && y.rank() <= x.rank())
    return {op::pow(x, call.known_number(1))};
  if (!is_floating(x.dtype())) {
    if (call.knows(1) && y.numel() == 1 && y.rank() <= x.rank()) {
      const double exponent = call.known_number(1);
      if (exponent >= 0 && exponent < 64 && exponent == std::floor(exponent))
        return {narrowed(integer_power(widened(x), static_cast<int>(exponent)), x.dtype())};
    }
    const DType wide = DType::float64;
    return {op::cast(op::pow(op::cast(x, wide), op::cast(y, wide)), x.dtype())};
  }
  return {op::pow(x, y.dtype() == x.dtype() ? y : op::cast(y, x.dtype()))};
}

Results clip(const Call& call) {
  const Tensor& x = call.input(0);
  if (call.opset() < 11) {
    constexpr double most = 3.402823466e+38;
    call.ignore({"consumed_inputs"});
    const double low = call.number("min", -most), high = call.number("max", most);
    if (call.has_attribute("min") && call.has_attribute("max")) return {op::clamp(x, low, high)};
    if (call.has_attribute("min")) return {op::maximum(x, low)};
    if (call.has_attribute("max")) return {op::minimum(x, high)};
    return {x};
  }
  if (call.knows(1) && call.knows(2) && is_floating(x.dtype()))
    return {op::clamp(x, call.known_number(1), call.known_number(2))};
  Tensor result = widened(x);
  if (call.has(1)) result = op::maximum(result, widened(call.input(1)));
  if (call.has(2)) result = op::minimum(result, widened(call.input(2)));
  return {narrowed(result, x.dtype())};
}

Results cast_to(const Tensor& given, DType dtype) {
  if (given.dtype() == dtype) return {given};
  const Tensor x = widened(given);
  if (x.dtype() == dtype) return {x};
  const bool integers = is_integer(x) && !is_floating(dtype) && dtype != DType::boolean;
  const bool loses = integers && (size_of(dtype) < size_of(x.dtype()) || dtype == DType::int8);
  return {loses ? wrapped(x, dtype) : op::cast(x, dtype)};
}

/// Not a number stays what it is.
Tensor sign(const Tensor& x) { return is_floating(x.dtype()) ? op::where(op::isnan(x), x, op::sign(x)) : op::sign(x); }

/// `element` is a type of ONNX, also one that no tensor has.
Results cast_to_element(const Call& call, std::int64_t element) {
  const bool saturate = call.integer("saturate", 1) != 0;
  const std::string round_mode = call.text("round_mode", "up");
  const Tensor& x = call.input(0);
  if (const std::optional<DType> dtype = dtype_of_element(element)) return cast_to(x, *dtype);
  const Narrow* narrow = narrow_of(element);
  if (narrow == nullptr)
    call.refuse(message("makes elements of ", name_of_element(element)), "no tensor has such elements");
  if (round_mode != "up" && round_mode != "down" && round_mode != "nearest")
    call.refuse(message("has round_mode '", round_mode, "'"), "up, down or nearest");
  call.makes(element);
  return {call.element(0) == element ? x : narrowed_to(*narrow, x, saturate, round_mode)};
}

Results cast(const Call& call) { return cast_to_element(call, call.integer("to")); }
Results cast_like(const Call& call) {
  return cast_to_element(call, call.element(1) != 0 ? call.element(1) : element_of(call.input(1).dtype()));
}

}  // namespace

void append_elementwise(Table& table) {
  for (const auto& [name, function] : std::initializer_list<std::pair<const char*, Unary>>{
           {"Abs", op::abs},     {"Acos", op::acos}, {"Acosh", op::acosh}, {"Asin", op::asin},
           {"Asinh", op::asinh}, {"Atan", op::atan}, {"Atanh", op::atanh}, {"Ceil", op::ceil},
           {"Cos", op::cos},     {"Cosh", op::cosh}, {"Erf", op::erf},     {"Exp", op::exp},
           {"Floor", op::floor}, {"Log", op::log},   {"Neg", op::neg},     {"Reciprocal", op::reciprocal},
           {"Round", op::round}, {"Sign", sign},     {"Sin", op::sin},     {"Sinh", op::sinh},
           {"Sqrt", op::sqrt},   {"Tan", op::tan},   {"Tanh", op::tanh},   {"Sigmoid", op::sigmoid},
       })
    table[name] = unary(function);
  table["Add"] = binary(op::add);
  table["Sub"] = binary(op::sub);
  table["Mul"] = binary(op::mul);
  table["Div"] = binary(op::div);
  table["Sum"] = folded(op::add);
  table["Max"] = folded(op::maximum);
  table["Min"] = folded(op::minimum);
  table["Mean"] = mean;
  table["Mod"] = mod;
  table["Pow"] = power;
  table["Clip"] = clip;
  table["Cast"] = cast;
  table["CastLike"] = cast_like;
}

}  // namespace tern::onnx
