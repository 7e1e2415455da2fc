#include <algorithm>

#include "onnx/writer.hpp"
#include "tern/operators/scattering.hpp"
#include "tern/tensor/create.hpp"

namespace tern::onnx {

namespace {

using Integers = std::vector<std::int64_t>;
using Linears = std::vector<graph::Linear>;

AttributeProto axis_attribute(std::int64_t axis) { return make_attribute("axis", axis); }

/// To the result's shape: with one size that follows the batch it is -1.
void to_result_shape(const Step& step) {
  const Linears& shape = step.result().shape;
  const auto following = std::ranges::count_if(shape, [](const graph::Linear& size) { return size.each != 0; });
  const bool empty = std::ranges::any_of(shape, [](const graph::Linear& size) { return size == graph::Linear{}; });
  if (following != 1 || empty) {
    std::vector<AttributeProto> attributes;
    if (empty) attributes.push_back(make_attribute("allowzero", std::int64_t{1}));
    return step.out.add("Reshape", {step.inputs[0], step.out.sizes(shape)}, step.results, std::move(attributes));
  }
  Integers sizes;
  for (const graph::Linear& size : shape) sizes.push_back(size.each != 0 ? -1 : size.fixed);
  step.out.add("Reshape", {step.inputs[0], step.out.integers(sizes)}, step.results);
}

void slice(const Step& step) {
  const Linears begin = step.sizes<std::int64_t>(1), end = step.sizes<std::int64_t>(2);
  step.out.add(
      "Slice",
      {step.inputs[0], step.out.sizes(begin), step.out.sizes(end), step.out.integers({step.attribute<std::int64_t>(0)}),
       step.out.integers({step.attribute<std::int64_t>(3)})},
      step.results);
}

void permuted(const Step& step, const Integers& order) {
  step.out.add("Transpose", step.inputs, step.results, {make_attribute("perm", order)});
}
void permute(const Step& step) {
  Integers order = step.attribute<Integers>();
  for (std::int64_t& each : order)
    if (each < 0) each += step.rank();
  permuted(step, order);
}
void transpose(const Step& step) {
  Integers order;
  for (int d = 0; d < step.rank(); ++d) order.push_back(d);
  const auto at = [&](std::size_t i) {
    const auto dim = step.attribute<std::int64_t>(i);
    return static_cast<std::size_t>(dim < 0 ? dim + step.rank() : dim);
  };
  std::swap(order.at(at(0)), order.at(at(1)));
  permuted(step, order);
}

void flip(const Step& step) {
  const Dims dims = step.attribute<Dims>();
  const Integers axes(dims.begin(), dims.end());
  const Integers all = axes.empty() ? axes_or_all(dims, step.rank()) : axes;
  const std::size_t n = all.size();
  step.out.add("Slice",
               {step.inputs[0], step.out.integers(Integers(n, -1)),
                step.out.integers(Integers(n, std::numeric_limits<std::int64_t>::min())), step.out.integers(all),
                step.out.integers(Integers(n, -1))},
               step.results);
}

void split_by(const Step& step, const Linears& sizes, std::int64_t dim) {
  step.out.add("Split", {step.inputs[0], step.out.sizes(sizes)}, step.results, {axis_attribute(dim)});
}
/// Sizes of the results along a dimension.
Linears sizes_along(const Step& step, std::int64_t dim) {
  Linears sizes;
  for (std::size_t i = 0; i < step.results.size(); ++i)
    sizes.push_back(step.result(i).shape.at(static_cast<std::size_t>(dim < 0 ? dim + step.rank() : dim)));
  return sizes;
}

void unbind(const Step& step) {
  const auto dim = step.attribute<std::int64_t>();
  Writer::Names parts;
  for (std::size_t i = 0; i < step.results.size(); ++i) parts.push_back(step.out.fresh());
  step.out.add("Split", {step.inputs[0], step.out.integers(Integers(parts.size(), 1))}, parts, {axis_attribute(dim)});
  for (std::size_t i = 0; i < parts.size(); ++i)
    step.out.add("Squeeze", {parts[i], step.out.integers({dim})}, {step.results[i]});
}

void stack(const Step& step) {
  const auto dim = step.attribute<std::int64_t>();
  Writer::Names parts;
  for (const std::string& input : step.inputs)
    parts.push_back(step.out.node("Unsqueeze", {input, step.out.integers({dim})}));
  step.out.add("Concat", parts, step.results, {axis_attribute(dim)});
}

std::string pads(const Step& step, const std::vector<op::Padding>& padding) {
  Integers all(2 * static_cast<std::size_t>(step.rank()));
  for (const op::Padding& each : padding) {
    const auto d = static_cast<std::size_t>(each.dim < 0 ? each.dim + step.rank() : each.dim);
    all.at(d) += each.before;
    all.at(d + static_cast<std::size_t>(step.rank())) += each.after;
  }
  return step.out.integers(all);
}
void pad(const Step& step) {
  step.fixed();
  const auto value = step.attribute<Number>(1).to<double>();
  step.out.add("Pad",
               {step.inputs[0], pads(step, step.attribute<std::vector<op::Padding>>(0)),
                step.out.number(value, step.value(0).dtype)},
               step.results);
}
void pad_mode(const Step& step) {
  step.fixed();
  const auto mode = step.attribute<op::PadMode>(1);
  step.out.add("Pad", {step.inputs[0], pads(step, step.attribute<std::vector<op::Padding>>(0))}, step.results,
               {make_attribute("mode", mode == op::PadMode::reflect     ? "reflect"
                                       : mode == op::PadMode::replicate ? "edge"
                                                                        : "wrap")});
}

template <bool upper>
void triangle(const Step& step) {
  const Tensor diagonal = full({}, step.attribute<std::int64_t>(), DType::int64);
  step.out.add("Trilu", {step.inputs[0], step.out.constant(diagonal)}, step.results,
               {make_attribute("upper", std::int64_t{upper})});
}

void tile(const Step& step) {
  const Linears times = step.sizes<Shape>();
  std::string x = step.inputs[0];
  // More numbers than dimensions add leading ones, fewer count as 1.
  Linears all(std::max<std::size_t>(times.size(), static_cast<std::size_t>(step.rank())), graph::Linear{1, 0});
  std::ranges::copy(times, all.end() - std::ssize(times));
  if (std::ssize(all) > step.rank()) {
    Integers added(all.size() - static_cast<std::size_t>(step.rank()));
    for (std::size_t i = 0; i < added.size(); ++i) added[i] = static_cast<std::int64_t>(i);
    x = step.out.node("Unsqueeze", {x, step.out.integers(added)});
  }
  step.out.add("Tile", {x, step.out.sizes(all)}, step.results);
}

void top_k(const Step& step, std::int64_t k, std::int64_t dim, bool largest, const Writer::Names& results) {
  step.out.add("TopK", {step.inputs[0], step.out.integers({k})}, results,
               {axis_attribute(dim), make_attribute("largest", std::int64_t{largest})});
}

const char* reduction_of(op::Scatter join) {
  switch (join) {
    case op::Scatter::none:
      return "none";
    case op::Scatter::add:
      return "add";
    case op::Scatter::mul:
      return "mul";
    case op::Scatter::max:
      return "max";
    case op::Scatter::min:
      return "min";
  }
  return "none";
}
void scattered(const Step& step, op::Scatter join) {
  step.out.add("ScatterElements", step.inputs, step.results,
               {axis_attribute(step.attribute<std::int64_t>()), make_attribute("reduction", reduction_of(join))});
}

}  // namespace

void append_written_shapes(EmitTable& table) {
  for (const char* name : {"reshape", "flatten", "squeeze", "unsqueeze"}) table[name] = to_result_shape;
  table["slice"] = slice;
  table["permute"] = permute;
  table["transpose"] = transpose;
  table["flip"] = flip;
  table["stack"] = stack;
  table["unbind"] = unbind;
  table["pad"] = pad;
  table["pad_mode"] = pad_mode;
  table["tril"] = triangle<false>;
  table["triu"] = triangle<true>;
  table["repeat"] = tile;
  table["tile"] = tile;
  table["expand"] = [](const Step& step) {
    step.out.add("Expand", {step.inputs[0], step.out.sizes(step.result().shape)}, step.results);
  };
  table["cast"] = [](const Step& step) {
    step.out.add("Cast", step.inputs, step.results, {make_attribute("to", element_of(step.result().dtype))});
  };
  table["cat"] = [](const Step& step) {
    step.out.add("Concat", step.inputs, step.results, {axis_attribute(step.attribute<std::int64_t>())});
  };
  table["split"] = [](const Step& step) {
    split_by(step, sizes_along(step, step.attribute<std::int64_t>(1)), step.attribute<std::int64_t>(1));
  };
  table["chunk"] = [](const Step& step) {
    split_by(step, sizes_along(step, step.attribute<std::int64_t>(1)), step.attribute<std::int64_t>(1));
  };
  table["embedding"] = [](const Step& step) { step.out.add("Gather", step.inputs, step.results); };
  table["index_select"] = [](const Step& step) {
    step.out.add("Gather", step.inputs, step.results, {axis_attribute(step.attribute<std::int64_t>())});
  };
  table["gather"] = [](const Step& step) {
    step.out.add("GatherElements", step.inputs, step.results, {axis_attribute(step.attribute<std::int64_t>())});
  };
  table["scatter"] = [](const Step& step) { scattered(step, op::Scatter::none); };
  table["scatter_add"] = [](const Step& step) { scattered(step, op::Scatter::add); };
  table["scatter_reduce"] = [](const Step& step) {
    const auto options = step.attribute<op::ScatterReduceOptions>(1);
    if (!options.include_self) throw Refusal("leaves out the elements that are there", "");
    scattered(step, options.join);
  };
  table["gather_nd"] = [](const Step& step) {
    step.out.add("GatherND", step.inputs, step.results, {make_attribute("batch_dims", step.attribute<std::int64_t>())});
  };
  table["scatter_nd"] = [](const Step& step) {
    step.out.add("ScatterND", step.inputs, step.results,
                 {make_attribute("reduction", reduction_of(step.attribute<op::Scatter>()))});
  };
  table["topk"] = [](const Step& step) {
    step.fixed();
    top_k(step, step.attribute<std::int64_t>(0), step.attribute<std::int64_t>(1), step.attribute<bool>(2),
          step.results);
  };
  table["sort"] = [](const Step& step) {
    const auto dim = step.attribute<std::int64_t>(0);
    top_k(step, step.size(0, dim), dim, step.attribute<bool>(1), step.results);
  };
  table["argsort"] = [](const Step& step) {
    const auto dim = step.attribute<std::int64_t>(0);
    top_k(step, step.size(0, dim), dim, step.attribute<bool>(1), {step.out.fresh(), step.results[0]});
  };
  table["one_hot"] = [](const Step& step) {
    const std::string values = step.out.constant(op::cast(arange(0, 2), step.result().dtype));
    step.out.add("OneHot", {step.inputs[0], step.out.integers({step.attribute<std::int64_t>(0)}), values},
                 step.results);
  };
  table["dropout"] = [](const Step& step) {
    if (step.attribute<bool>(1)) throw Refusal("draws random numbers", "trace the module in evaluation");
    step.out.add("Identity", step.inputs, step.results);
  };
}

}  // namespace tern::onnx
