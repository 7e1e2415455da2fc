// Elements by position.

#include <algorithm>

#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

/// Positions as int64 from 0 on; negative ones count from the end.
Tensor positions(const Call& call, int input, std::int64_t size) {
  const Tensor& given = call.input(input);
  const Tensor index = given.dtype() == DType::int64 ? given : op::cast(given, DType::int64);
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

Results scatter_elements(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  const Tensor index = positions(call, 1, x.size(axis));
  const std::string how = call.text("reduction", "none");
  if (how == "none") return {op::scatter(x, axis, index, call.input(2))};
  if (how == "add") return {op::scatter_add(x, axis, index, call.input(2))};
  call.refuse(message("has reduction '", how, "'"), "none or add");
}

/// Where tuples of positions [..., depth] lie in the first `depth` of these sizes, as [rows].
Tensor linear_positions(const Tensor& tuples, const Integers& sizes) {
  const std::int64_t depth = std::ssize(sizes);
  const Tensor rows = op::reshape(tuples, {-1, depth});
  const Tensor limits = tern::tensor(sizes, {depth});
  Integers strides(sizes.size(), 1);
  for (std::int64_t d = depth - 2; d >= 0; --d) strides[d] = strides[d + 1] * sizes[d + 1];
  const Tensor from_start = op::where(op::less(rows, 0.0), op::add(rows, limits), rows);
  return op::sum(op::mul(from_start, tern::tensor(strides, {depth})), {1});
}

Results gather_nd(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor index = op::cast(call.input(1), DType::int64);
  const std::int64_t batches = call.integer("batch_dims", 0), depth = index.rank() == 0 ? 0 : index.size(-1);
  if (batches < 0 || batches >= std::min(x.rank(), index.rank()) || depth < 1 || batches + depth > x.rank())
    call.refuse(message("takes tuples ", index.shape(), " of ", x.shape(), " with ", batches, " batch dimensions"));
  // The batch's own position is another number of each tuple.
  Tensor tuples = index;
  for (std::int64_t d = batches - 1; d >= 0; --d) {
    Shape own = Shape::filled(index.rank(), 1), whole = index.shape();
    own[static_cast<int>(d)] = index.size(d);
    whole[index.rank() - 1] = 1;
    const Tensor own_positions = op::reshape(arange(0, index.size(d)), own);
    tuples = op::cat({op::expand(own_positions, whole), tuples}, -1);
  }
  const Integers sizes(x.shape().begin(), x.shape().begin() + batches + depth);
  Shape flat{-1}, shape(index.shape().begin(), index.shape().end() - 1);
  for (int d = static_cast<int>(batches + depth); d < x.rank(); ++d) {
    flat.push_back(x.shape()[d]);
    shape.push_back(x.shape()[d]);
  }
  return {op::reshape(op::index_select(op::reshape(x, flat), 0, linear_positions(tuples, sizes)), shape)};
}

Results scatter_nd(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor index = op::cast(call.input(1), DType::int64);
  const std::int64_t depth = index.rank() == 0 ? 0 : index.size(-1);
  if (depth < 1 || depth > x.rank()) call.refuse(message("takes tuples ", index.shape(), " of ", x.shape()));
  const Integers sizes(x.shape().begin(), x.shape().begin() + depth);
  std::int64_t inner = 1;
  for (int d = static_cast<int>(depth); d < x.rank(); ++d) inner *= x.shape()[d];
  const Tensor rows = linear_positions(index, sizes);
  const Tensor places = op::expand(op::reshape(rows, {-1, 1}), {rows.size(0), inner});
  const Tensor flat = op::reshape(x, {-1, inner}), source = op::reshape(call.input(2), {-1, inner});
  const std::string how = call.text("reduction", "none");
  if (how == "none") return {op::reshape(op::scatter(flat, 0, places, source), x.shape())};
  if (how == "add") return {op::reshape(op::scatter_add(flat, 0, places, source), x.shape())};
  call.refuse(message("has reduction '", how, "'"), "none or add");
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
  const auto depth = static_cast<std::int64_t>(call.known_number(1));
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
  const Tensor& x = call.input(0);
  const bool flat = !call.has_attribute("axis");
  const Tensor rows = flat ? op::reshape(x, {-1}) : x;
  const int axis = flat ? 0 : axis_of(call, call.integer("axis"), x.rank());
  return {op::index_select(rows, axis, op::reshape(op::nonzero(call.input(1)), {-1}))};
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
}

}  // namespace tern::onnx
