// Comparisons, logic and choice.

#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

Operator binary(Binary function) {
  return [function](const Call& call) { return Results{function(call.input(0), call.input(1))}; };
}

Results is_infinite(const Call& call) {
  const Tensor& x = call.input(0);
  const bool negative = call.integer("detect_negative", 1) != 0, positive = call.integer("detect_positive", 1) != 0;
  if (negative && positive) return {op::isinf(x)};
  if (!negative && !positive) return {op::not_equal(op::isinf(x), op::isinf(x))};
  const Tensor side = positive ? op::greater(x, 0.0) : op::less(x, 0.0);
  return {op::logical_and(op::isinf(x), side)};
}

}  // namespace

void append_logic(Table& table) {
  table["And"] = binary(op::logical_and);
  table["Or"] = binary(op::logical_or);
  table["Xor"] = binary(op::logical_xor);
  table["Not"] = [](const Call& call) { return Results{op::logical_not(call.input(0))}; };
  table["Equal"] = binary(op::equal);
  table["Less"] = binary(op::less);
  table["LessOrEqual"] = binary(op::less_equal);
  table["Greater"] = binary(op::greater);
  table["GreaterOrEqual"] = binary(op::greater_equal);
  table["BitwiseAnd"] = binary(op::bitwise_and);
  table["BitwiseOr"] = binary(op::bitwise_or);
  table["BitwiseXor"] = binary(op::bitwise_xor);
  table["BitwiseNot"] = [](const Call& call) { return Results{op::bitwise_not(call.input(0))}; };
  table["IsNaN"] = [](const Call& call) { return Results{op::isnan(call.input(0))}; };
  table["IsInf"] = is_infinite;
  table["Where"] = [](const Call& call) { return Results{op::where(call.input(0), call.input(1), call.input(2))}; };
}

}  // namespace tern::onnx
