#include <algorithm>
#include <cmath>

#include "onnx/table.hpp"
#include "tern/operators/fourier.hpp"
#include "tern/operators/linalg.hpp"

namespace tern::onnx {

namespace {

/// Products of integers: all of them and their sums where they are few, else in double, exact below 2^53.
Tensor product(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype())) return op::matmul(a, b);
  constexpr std::int64_t few = std::int64_t{1} << 22;
  const std::int64_t columns = b.rank() > 1 ? b.shape()[b.rank() - 1] : 1,
                     rows = a.rank() > 1 ? a.shape()[a.rank() - 2] : 1;
  if (a.rank() > 0 && b.rank() > 0 && a.numel() <= few / std::max<std::int64_t>(columns, 1) &&
      b.numel() <= few / std::max<std::int64_t>(rows, 1)) {
    const Tensor left = op::cast(a.rank() == 1 ? a.unsqueeze(0) : a, DType::int64);
    const Tensor right = op::cast(b.rank() == 1 ? b.unsqueeze(1) : b, DType::int64);
    Tensor sums = op::sum(op::mul(left.unsqueeze(-1), right.unsqueeze(-3)), {-2}, false);
    if (b.rank() == 1) sums = op::squeeze(sums, {-1});
    if (a.rank() == 1) sums = op::squeeze(sums, {b.rank() == 1 ? -1 : -2});
    return wrapped(sums, a.dtype());
  }
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
  check_broadcasts(call, c, result.shape());
  return {op::add(result, beta == 1 ? c : op::mul(c, beta))};
}

/// Signals of real or complex numbers; the axis is an attribute before operator set 20.
Results dft(const Call& call) {
  const Tensor& x = call.input(0);
  op::DftOptions options{.inverse = call.integer("inverse", 0) != 0, .onesided = call.integer("onesided", 0) != 0};
  if (call.has(1)) options.length = call.known_integer(1);
  std::int64_t axis = 0;
  if (call.opset() < 20)
    axis = call.integer("axis", 1);
  else
    axis = call.has(2) ? call.known_integer(2) : -2;
  return {op::dft(x, axis_of(call, axis, x.rank()), options)};
}

/// Transforms of windows of a signal [N, L, 1 or 2] that begin `step` apart: [N, windows, frequencies, 2].
Results stft(const Call& call) {
  const Tensor x = call.input(0).rank() == 2 ? call.input(0).unsqueeze(2) : call.input(0);
  const std::int64_t step = call.known_integer(1);
  if (x.rank() != 3) call.refuse(message("has a signal ", x.shape()), "repair the file");
  std::int64_t length = x.size(1);
  if (call.has(2)) length = call.input(2).numel();
  if (call.has(3)) length = call.known_integer(3);
  if (step < 1 || length < 1 || length > x.size(1) || (call.has(2) && call.input(2).shape() != Shape{length}))
    call.refuse(message("has windows of ", length, " elements, ", step, " apart, for a signal ", x.shape()), "");
  const std::int64_t count = (x.size(1) - length) / step + 1;
  const Tensor starts = op::reshape(arange(0, count * step, step), {count, 1});
  const Tensor places = op::add(starts, op::reshape(arange(0, length), {1, length}));
  Tensor windows =
      op::reshape(op::index_select(x, 1, op::reshape(places, {-1})), {x.size(0), count, length, x.size(2)});
  if (call.has(2)) windows = op::mul(windows, op::reshape(call.input(2), {length, 1}));
  return {op::dft(windows, 2, {.onesided = call.integer("onesided", 1) != 0})};
}

}  // namespace

void append_products(Table& table) {
  table["MatMul"] = [](const Call& call) { return Results{product(call.input(0), call.input(1))}; };
  table["Gemm"] = gemm;
  table["Det"] = [](const Call& call) { return Results{op::det(call.input(0))}; };
  table["DFT"] = dft;
  table["STFT"] = stft;
  table["Einsum"] = [](const Call& call) { return Results{op::einsum(call.text("equation", ""), call.all_inputs())}; };
}

}  // namespace tern::onnx
