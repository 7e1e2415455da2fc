// Values without inputs, and what describes other values.

#include <algorithm>
#include <cmath>

#include "onnx/model.hpp"
#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

Results constant(const Call& call) {
  call.ignore({"value_string", "value_strings", "sparse_value"});
  if (call.has_attribute("value")) return {call.tensor("value")};
  if (call.has_attribute("value_float")) return {scalar(static_cast<float>(call.number("value_float", 0)))};
  if (call.has_attribute("value_int")) return {scalar(call.integer("value_int"))};
  if (call.has_attribute("value_ints")) {
    const Integers values = call.integers("value_ints");
    return {tern::tensor(values, {static_cast<std::int64_t>(values.size())})};
  }
  if (call.has_attribute("value_floats")) {
    const std::vector<double> wide = call.numbers("value_floats");
    const std::vector<float> values(wide.begin(), wide.end());
    return {tern::tensor(values, {static_cast<std::int64_t>(values.size())})};
  }
  call.refuse("holds a text or a sparse tensor", "graphs take tensors");
}

Results constant_of_shape(const Call& call) {
  const Shape shape(call.known_integers(0));
  call.check_size(shape);
  Tensor value = call.tensor("value");
  if (!value.defined()) value = full({}, 0);
  return {op::expand(op::reshape(value, {}), shape)};
}

Results range(const Call& call) {
  const DType dtype = call.input(0).dtype();
  if (is_floating(dtype)) {
    const double begin = call.known_number(0), end = call.known_number(1), step = call.known_number(2);
    if (step == 0) call.refuse("has a step of 0", "repair the file");
    const double count = std::max(std::ceil((end - begin) / step), 0.0);
    if (!(count < 1e18)) call.refuse("has no end", "repair the file");
    call.check_size({static_cast<std::int64_t>(count)});
    const Tensor positions = op::cast(arange(0, static_cast<std::int64_t>(count)), dtype);
    return {op::add(op::mul(positions, step), begin)};
  }
  const std::int64_t begin = call.known_integer(0), end = call.known_integer(1), step = call.known_integer(2);
  if (step == 0) call.refuse("has a step of 0", "repair the file");
  const double count =
      std::max((static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step), 0.0);
  if (!(count < 1e18)) call.refuse("has no end", "repair the file");
  call.check_size({static_cast<std::int64_t>(count) + 1});
  return {arange(begin, end, step, dtype)};
}

Results eye_like(const Call& call) {
  const Tensor& like = call.input(0);
  const std::int64_t type = call.integer("dtype", element_of(like.dtype()));
  const std::optional<DType> dtype = dtype_of_element(type);
  if (!dtype) call.refuse(message("makes elements of ", name_of_element(type)), "no tensor has such elements");
  if (like.rank() != 2) call.refuse(message("has an input of shape ", like.shape(), ", expected a matrix"));
  const std::int64_t rows = like.size(0), columns = like.size(1), shift = call.integer("k", 0);
  const Tensor down = op::reshape(arange(0, rows), {rows, 1}), across = op::reshape(arange(0, columns), {1, columns});
  return {op::cast(op::equal(op::sub(across, down), static_cast<double>(shift)), *dtype)};
}

Results shape(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t rank = x.rank();
  const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t begin = bound(call.integer("start", 0)), end = bound(call.integer("end", rank));
  Integers sizes;
  for (std::int64_t d = begin; d < end; ++d) sizes.push_back(x.size(d));
  return {tern::tensor(sizes, {static_cast<std::int64_t>(sizes.size())})};
}

}  // namespace

void append_constants(Table& table) {
  table["Constant"] = constant;
  table["ConstantOfShape"] = constant_of_shape;
  table["Range"] = range;
  table["EyeLike"] = eye_like;
  table["Shape"] = shape;
  table["Size"] = [](const Call& call) { return Results{scalar(call.input(0).numel())}; };
}

}  // namespace tern::onnx
