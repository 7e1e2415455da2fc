// Elements by position.

#include <algorithm>
#include <optional>

#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

/// Positions as int64 from 0 on; negative ones count from the end.
Tensor positions(const Call& call, int input, std::int64_t size) {
  const Tensor& given = call.input(input);
  Tensor index = given.dtype() == DType::int64 ? given : op::cast(given, DType::int64);
  if (call.knows(input)) {
    const std::vector<std::int64_t> values = call.known_integers(input);
    if (std::ranges::none_of(values, [](std::int64_t each) { return each < 0; })) return index;
  }
  return op::where(op::less(index, 0.0), op::add(index, static_cast<double>(size)), index);
}

Results gather(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  const Tensor& given = call.input(1);
  if (call.knows(1) && given.rank() == 0) {
    const std::int64_t at = call.known_integer(1), size = x.size(axis);
    if (at < -size || at >= size) call.refuse(message("takes element ", at, " of ", size), "repair the file");
    const std::int64_t from = at < 0 ? at + size : at;
    return {op::squeeze(op::slice(x, axis, from, from + 1), {axis})};
  }
  const Tensor index = positions(call, 1, x.size(axis));
  if (axis == 0 && x.rank() == 2 && is_floating(x.dtype())) return {op::embedding(x, index)};
  if (index.rank() == 1) return {op::index_select(x, axis, index)};
  Shape shape(x.shape().begin(), x.shape().begin() + axis);
  for (const std::int64_t size : index.shape()) shape.push_back(size);
  for (int d = axis + 1; d < x.rank(); ++d) shape.push_back(x.shape()[d]);
  return {op::reshape(op::index_select(x, axis, op::reshape(index, {-1})), shape)};
}

Results gather_elements(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  return {op::gather(x, axis, positions(call, 1, x.size(axis)))};
}

op::Scatter join_of(const Call& call) {
  const std::string how = call.text("reduction", "none");
  if (how == "none") return op::Scatter::none;
  if (how == "add") return op::Scatter::add;
  if (how == "mul") return op::Scatter::mul;
  if (how == "max") return op::Scatter::max;
  if (how == "min") return op::Scatter::min;
  call.refuse(message("has reduction '", how, "'"), "none, add, mul, max or min");
}

Results scatter_elements(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  const Tensor index = positions(call, 1, x.size(axis));
  return {op::scatter_reduce(x, axis, index, call.input(2), {.join = join_of(call)})};
}

Results gather_nd(const Call& call) {
  return {op::gather_nd(call.input(0), call.input(1), call.integer("batch_dims", 0))};
}

Results scatter_nd(const Call& call) {
  return {op::scatter_nd(call.input(0), call.input(1), call.input(2), join_of(call))};
}

Results top_k(const Call& call) {
  call.ignore({"sorted"});
  const Tensor& x = call.input(0);
  const std::int64_t k = call.opset() < 10 ? call.integer("k") : call.known_integer(1);
  const int axis = axis_of(call, call.integer("axis", -1), x.rank());
  const op::Sorted best = op::topk(x, k, axis, call.integer("largest", 1) != 0);
  return {best.values, best.indices};
}

Results one_hot(const Call& call) {
  const Tensor index = op::cast(call.input(0), DType::int64);
  const double classes = call.known_number(1);
  if (!(classes >= 0 && classes < 1e15)) call.refuse(message("has ", classes, " classes"), "repair the file");
  const auto depth = static_cast<std::int64_t>(classes);
  const Tensor& values = call.input(2);
  if (values.numel() != 2) call.refuse(message("has ", values.numel(), " values, expected two"));
  const int axis = axis_of(call, call.integer("axis", -1), index.rank() + 1);
  Shape places = Shape::filled(index.rank() + 1, 1), shape;
  for (int d = 0; d <= index.rank(); ++d) shape.push_back(d == axis ? 1 : index.shape()[d < axis ? d : d - 1]);
  places[axis] = depth;
  Shape whole = shape;
  whole[axis] = depth;
  call.check_size(whole);
  const Tensor own = op::where(op::less(index, 0.0), op::add(index, static_cast<double>(depth)), index);
  const Tensor hit = op::equal(op::reshape(own, shape), op::reshape(arange(0, depth), places));
  const Tensor flat = op::reshape(values, {2});
  return {op::where(hit, op::slice(flat, 0, 1, 2), op::slice(flat, 0, 0, 1))};
}

Results non_zero(const Call& call) { return {op::transpose(op::nonzero(call.input(0)), 0, 1)}; }

Results compress(const Call& call) {
  std::optional<std::int64_t> axis;
  if (call.has_attribute("axis")) axis = call.integer("axis");
  return {op::compress(call.input(0), call.input(1), axis)};
}

Results unique(const Call& call) {
  op::UniqueOptions options{.sorted = call.integer("sorted", 1) != 0};
  if (call.has_attribute("axis")) options.dim = call.integer("axis");
  Results results = op::unique(call.input(0), options);
  if (!options.dim) results[2] = op::reshape(results[2], {-1});  // positions in the flattened input
  return results;
}

}  // namespace

void append_indexing(Table& table) {
  table["Gather"] = gather;
  table["GatherElements"] = gather_elements;
  table["GatherND"] = gather_nd;
  table["Scatter"] = scatter_elements;
  table["ScatterElements"] = scatter_elements;
  table["ScatterND"] = scatter_nd;
  table["TopK"] = top_k;
  table["OneHot"] = one_hot;
  table["NonZero"] = non_zero;
  table["Compress"] = compress;
  table["Unique"] = unique;
}

}  // namespace tern::onnx
