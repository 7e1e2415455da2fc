// Other views and arrangements of the same elements.

#include <algorithm>
#include <numeric>

#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

Results reshape(const Call& call) {
  const Tensor& x = call.input(0);
  const Integers wanted = call.has(1) ? call.known_integers(1) : call.integers("shape");
  const bool zero_is_size = call.integer("allowzero", 0) != 0;
  Shape shape;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool keeps = wanted[i] == 0 && !zero_is_size;
    if (keeps && static_cast<int>(i) >= x.rank()) call.refuse(message("keeps size ", i, " of shape ", x.shape()));
    shape.push_back(keeps ? x.shape()[static_cast<int>(i)] : wanted[i]);
  }
  return {op::reshape(x, shape)};
}

Results flatten(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t given = call.integer("axis", 1);
  const int axis = given == x.rank() ? x.rank() : axis_of(call, given, x.rank());
  if (axis == 1 && x.rank() == 2) return {x};
  if (axis == 1 && x.rank() > 1) return {op::flatten(x, 1, -1)};
  const auto product = [](auto begin, auto end) {
    return std::accumulate(begin, end, std::int64_t{1}, std::multiplies());
  };
  const Shape& shape = x.shape();
  return {op::reshape(x, {product(shape.begin(), shape.begin() + axis), product(shape.begin() + axis, shape.end())})};
}

Results squeeze(const Call& call) {
  const Tensor& x = call.input(0);
  Dims dims = axes_of(call, 1);
  if (dims.empty()) {
    for (int d = 0; d < x.rank(); ++d)
      if (x.shape()[d] == 1) dims.push_back(d);
    if (dims.empty()) return {x};
  }
  return {op::squeeze(x, dims)};
}

Results unsqueeze(const Call& call) {
  const Tensor& x = call.input(0);
  const Integers given = axes_of(call, 1);
  const int rank = x.rank() + static_cast<int>(given.size());
  std::vector<bool> is_new(static_cast<std::size_t>(rank));
  for (const std::int64_t axis : given) is_new[axis_of(call, axis, rank)] = true;
  Shape shape;
  int next = 0;
  for (int d = 0; d < rank; ++d) {
    if (!is_new[d] && next >= x.rank()) call.refuse("names an axis twice", "repair the file");
    shape.push_back(is_new[d] ? 1 : x.shape()[next++]);
  }
  return {op::reshape(x, shape)};
}

Results transpose(const Call& call) {
  const Tensor& x = call.input(0);
  Integers order = call.integers("perm");
  if (!call.has_attribute("perm"))
    for (int d = x.rank() - 1; d >= 0; --d) order.push_back(d);
  return {op::permute(x, order)};
}

Results concat(const Call& call) {
  const std::vector<Tensor> tensors = call.all_inputs();
  if (tensors.empty()) call.refuse("has no inputs", "repair the file");
  const int axis = axis_of(call, call.opset() < 4 ? call.integer("axis", 1) : call.integer("axis"), tensors[0].rank());
  if (tensors.size() == 1) return {tensors[0]};
  return {op::cat(tensors, axis)};
}

Results split(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  Integers sizes = call.has(1) ? call.known_integers(1) : call.integers("split");
  if (sizes.empty()) {
    const std::int64_t count = call.integer("num_outputs", call.results()), size = x.size(axis);
    if (count < 1 || count > 100'000) call.refuse(message("has ", count, " results"), "repair the file");
    const std::int64_t each = (size + count - 1) / count;
    for (std::int64_t i = 0; i < count; ++i) sizes.push_back(std::clamp<std::int64_t>(size - i * each, 0, each));
  }
  return op::split(x, sizes, axis);
}

Results slice(const Call& call) {
  Tensor x = call.input(0);
  const bool by_inputs = call.opset() >= 10;
  const Integers begins = by_inputs ? call.known_integers(1) : call.integers("starts");
  const Integers ends = by_inputs ? call.known_integers(2) : call.integers("ends");
  Integers axes = by_inputs ? (call.has(3) ? call.known_integers(3) : Integers{}) : call.integers("axes");
  const Integers steps = by_inputs && call.has(4) ? call.known_integers(4) : Integers(begins.size(), 1);
  if (axes.empty()) {
    axes.resize(begins.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (ends.size() != begins.size() || axes.size() != begins.size() || steps.size() != begins.size())
    call.refuse("has begins, ends, axes and steps of different numbers", "repair the file");
  constexpr std::int64_t far = std::int64_t{1} << 40;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const int axis = axis_of(call, axes[i], x.rank());
    std::int64_t begin = std::clamp(begins[i], -far, far);
    if (steps[i] < 0 && begin < -x.size(axis)) begin = 0;  // ONNX has it on the first element, NumPy before it
    const std::int64_t end = ends[i] >= far ? std::numeric_limits<std::int64_t>::max() : std::max(ends[i], -far);
    x = op::slice(x, axis, begin, end, steps[i]);
  }
  return {x};
}

Results expand(const Call& call) {
  const Tensor& x = call.input(0);
  const Shape shape = broadcast("Expand", x.shape(), Shape(call.known_integers(1)));
  call.check_size(shape);
  return {op::expand(x, shape)};
}

Results tile(const Call& call) {
  const Tensor& x = call.input(0);
  const Integers times = call.known_integers(1);
  if (std::ssize(times) != x.rank()) call.refuse(message("has ", times.size(), " numbers for shape ", x.shape()));
  Shape whole;
  for (int d = 0; d < x.rank(); ++d) {
    std::int64_t size = 0;
    if (times[d] < 0 || __builtin_mul_overflow(x.shape()[d], times[d], &size)) call.refuse("has sizes that overflow");
    whole.push_back(size);
  }
  call.check_size(whole);
  return {op::repeat(x, times)};
}

Results pad(const Call& call) {
  const Tensor& x = call.input(0);
  const std::string mode = call.text("mode", "constant");
  const bool by_inputs = call.opset() >= 11;
  const Integers sizes = by_inputs ? call.known_integers(1) : call.integers("pads");
  Integers axes = by_inputs && call.has(3) ? call.known_integers(3) : Integers{};
  if (axes.empty()) {
    axes.resize(x.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (sizes.size() != 2 * axes.size()) call.refuse(message("has ", sizes.size(), " pads for ", axes.size(), " axes"));
  std::vector<op::Padding> padding;
  Shape whole = x.shape();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = axis_of(call, axes[i], x.rank());
    const std::int64_t before = sizes[i], after = sizes[axes.size() + i];
    constexpr std::int64_t far = std::int64_t{1} << 40;
    if (std::max({before, after, -before, -after}) > far) call.refuse("has sizes that overflow");
    whole[axis] = std::max<std::int64_t>(whole[axis] + before + after, 0);
    if (before != 0 || after != 0) padding.push_back({axis, before, after});
  }
  call.check_size(whole);
  if (mode == "constant") {
    Number value = 0;
    if (!by_inputs)
      value = call.number("value", 0);
    else if (call.has(2))
      value = is_floating(x.dtype()) ? Number(call.known_number(2)) : Number(call.known_integer(2));
    return {padding.empty() ? x : op::pad(x, padding, value)};
  }
  if (padding.empty()) return {x};
  const bool negative =
      std::ranges::any_of(padding, [](const op::Padding& each) { return each.before < 0 || each.after < 0; });
  if (negative) call.refuse(message("removes elements in mode '", mode, "'"), "slice them off");
  if (mode == "reflect") return {op::pad(x, padding, op::PadMode::reflect)};
  if (mode == "edge") return {op::pad(x, padding, op::PadMode::replicate)};
  if (mode == "wrap") return {op::pad(x, padding, op::PadMode::circular)};
  call.refuse(message("has mode '", mode, "'"), "constant, reflect, edge or wrap");
}

/// Refuses blocks that do not divide what they are made of.
void check_blocks(const Call& call, const Tensor& x, std::int64_t block, bool channels, const std::string& mode) {
  constexpr std::int64_t most = 1 << 15;
  const bool fits = block >= 1 && block <= most && x.rank() == 4 &&
                    (channels ? x.size(1) % (block * block) == 0 : x.size(2) % block == 0 && x.size(3) % block == 0);
  if (!fits)
    call.refuse(message("has blocks of ", block, " for an input ", x.shape()),
                channels ? "channels are a multiple of their square" : "height and width are multiples of them");
  if (mode != "DCR" && mode != "CRD") call.refuse(message("has mode '", mode, "'"), "DCR or CRD");
}

Results depth_to_space(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t block = call.integer("blocksize");
  const std::string mode = call.text("mode", "DCR");
  check_blocks(call, x, block, true, mode);
  const std::int64_t n = x.size(0), c = x.size(1) / (block * block), h = x.size(2), w = x.size(3);
  const Tensor parts = mode == "DCR" ? op::permute(op::reshape(x, {n, block, block, c, h, w}), {0, 3, 4, 1, 5, 2})
                                     : op::permute(op::reshape(x, {n, c, block, block, h, w}), {0, 1, 4, 2, 5, 3});
  return {op::reshape(parts, {n, c, h * block, w * block})};
}

Results space_to_depth(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t block = call.integer("blocksize");
  const std::string mode = call.text("mode", "DCR");
  check_blocks(call, x, block, false, mode);
  const std::int64_t n = x.size(0), c = x.size(1), h = x.size(2) / block, w = x.size(3) / block;
  const Tensor parts = op::reshape(x, {n, c, h, block, w, block});
  const Integers order = mode == "DCR" ? Integers{0, 3, 5, 1, 2, 4} : Integers{0, 1, 3, 5, 2, 4};
  return {op::reshape(op::permute(parts, order), {n, c * block * block, h, w})};
}

Results trilu(const Call& call) {
  const std::int64_t diagonal = call.has(1) ? call.known_integer(1) : 0;
  const bool upper = call.integer("upper", 1) != 0;
  return {upper ? op::triu(call.input(0), diagonal) : op::tril(call.input(0), diagonal)};
}

Results identity(const Call& call) { return {call.input(0)}; }

/// Of inference: the second result tells what was kept.
Results dropout(const Call& call) {
  call.ignore({"seed", "ratio"});
  if (call.has(2) && call.known_integer(2) != 0) {
    const double ratio = call.has(1) ? call.known_number(1) : 0.5;
    if (ratio != 0) call.refuse("draws random numbers", "export the model for inference");
  }
  Results results{call.input(0)};
  if (call.wants(1)) results.push_back(op::expand(full({}, true, DType::boolean), call.input(0).shape()));
  return results;
}

}  // namespace

void append_shapes(Table& table) {
  table["Reshape"] = reshape;
  table["Flatten"] = flatten;
  table["Squeeze"] = squeeze;
  table["Unsqueeze"] = unsqueeze;
  table["Transpose"] = transpose;
  table["Concat"] = concat;
  table["Split"] = split;
  table["Slice"] = slice;
  table["Expand"] = expand;
  table["Tile"] = tile;
  table["Pad"] = pad;
  table["DepthToSpace"] = depth_to_space;
  table["SpaceToDepth"] = space_to_depth;
  table["Trilu"] = trilu;
  table["Identity"] = identity;
  table["Dropout"] = dropout;
}

}  // namespace tern::onnx
