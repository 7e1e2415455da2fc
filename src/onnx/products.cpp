#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

/// Products of integers in double: exact below 2^53.
Tensor product(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype())) return op::matmul(a, b);
  return op::cast(op::matmul(op::cast(a, DType::float64), op::cast(b, DType::float64)), a.dtype());
}

Results gemm(const Call& call) {
  const double alpha = call.number("alpha", 1), beta = call.number("beta", 1);
  const bool turn_a = call.integer("transA", 0) != 0, turn_b = call.integer("transB", 0) != 0;
  if (call.opset() < 7) call.ignore({"broadcast"});
  Tensor a = call.input(0);
  const Tensor &b = call.input(1), c = call.optional(2);
  if (a.rank() != 2 || b.rank() != 2) call.refuse(message("multiplies ", a.shape(), " and ", b.shape()));
  if (turn_a) a = op::transpose(a, 0, 1);
  const Tensor weight = turn_b ? b : op::transpose(b, 0, 1);  // [n, k]
  const bool row = c.defined() && c.rank() == 1 && c.size(0) == weight.size(0);
  if (is_floating(a.dtype()) && alpha == 1 && (!c.defined() || (row && beta == 1))) return {op::linear(a, weight, c)};
  Tensor result = product(a, turn_b ? op::transpose(b, 0, 1) : b);
  if (alpha != 1) result = op::mul(result, alpha);
  if (!c.defined() || beta == 0) return {result};
  return {op::add(result, beta == 1 ? c : op::mul(c, beta))};
}

}  // namespace

void append_products(Table& table) {
  table["MatMul"] = [](const Call& call) { return Results{product(call.input(0), call.input(1))}; };
  table["Gemm"] = gemm;
  table["Einsum"] = [](const Call& call) { return Results{op::einsum(call.text("equation", ""), call.all_inputs())}; };
}

}  // namespace tern::onnx
