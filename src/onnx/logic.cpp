// Comparisons, logic and choice.

#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

Operator binary(Binary function) {
  return [function](const Call& call) { return Results{function(call.input(0), second_input(call))}; };
}
/// Operators compute with int8 as int32.
Tensor widened(const Tensor& x) { return x.dtype() == DType::int8 ? op::cast(x, DType::int32) : x; }
Operator comparison(Binary function) {
  return
      [function](const Call& call) { return Results{function(widened(call.input(0)), widened(second_input(call)))}; };
}
Operator bitwise(Binary function) {
  return [function](const Call& call) {
    const DType dtype = call.input(0).dtype();
    const Tensor result = function(widened(call.input(0)), widened(call.input(1)));
    if (dtype != DType::int8) return Results{result};
    const Tensor low = op::bitwise_and(result, full({}, 255, DType::int32));
    return Results{op::cast(op::where(op::greater(low, 127.0), op::sub(low, 256.0), low), dtype)};
  };
}

Results bitwise_not(const Call& call) {
  const Tensor& x = call.input(0);  // -1 - x of int8 fits
  return {x.dtype() == DType::int8 ? op::cast(op::bitwise_not(widened(x)), DType::int8) : op::bitwise_not(x)};
}

Results is_infinite(const Call& call) {
  const Tensor& x = call.input(0);
  const bool negative = call.integer("detect_negative", 1) != 0, positive = call.integer("detect_positive", 1) != 0;
  if (negative && positive) return {op::isinf(x)};
  if (!negative && !positive) return {op::not_equal(op::isinf(x), op::isinf(x))};
  const Tensor side = positive ? op::greater(x, 0.0) : op::less(x, 0.0);
  return {op::logical_and(op::isinf(x), side)};
}

Results bit_shift(const Call& call) {
  const std::string direction = call.text("direction", "");
  if (direction == "LEFT") return bitwise(op::bitwise_left_shift)(call);
  if (direction == "RIGHT") return bitwise(op::bitwise_right_shift)(call);
  call.refuse(message("has direction '", direction, "'"), "LEFT or RIGHT");
}

}  // namespace

void append_logic(Table& table) {
  table["And"] = binary(op::logical_and);
  table["Or"] = binary(op::logical_or);
  table["Xor"] = binary(op::logical_xor);
  table["Not"] = [](const Call& call) { return Results{op::logical_not(call.input(0))}; };
  table["Equal"] = comparison(op::equal);
  table["Less"] = comparison(op::less);
  table["LessOrEqual"] = comparison(op::less_equal);
  table["Greater"] = comparison(op::greater);
  table["GreaterOrEqual"] = comparison(op::greater_equal);
  table["BitwiseAnd"] = bitwise(op::bitwise_and);
  table["BitwiseOr"] = bitwise(op::bitwise_or);
  table["BitwiseXor"] = bitwise(op::bitwise_xor);
  table["BitwiseNot"] = bitwise_not;
  table["BitShift"] = bit_shift;
  table["IsNaN"] = [](const Call& call) { return Results{op::isnan(call.input(0))}; };
  table["IsInf"] = is_infinite;
  table["Where"] = [](const Call& call) {
    const Tensor result = op::where(call.input(0), widened(call.input(1)), widened(call.input(2)));
    return Results{call.input(1).dtype() == DType::int8 ? op::cast(result, DType::int8) : result};
  };
}

}  // namespace tern::onnx
