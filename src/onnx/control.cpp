// If, Loop and Scan: which branch, and how often, must be known while the model is read; the nodes of a body are then
// written into the graph once per iteration.

#include "onnx/importer.hpp"
#include "onnx/narrow.hpp"
#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

const GraphProto& body_of(const NodeProto& node, std::string_view name) {
  const AttributeProto* attribute = find_attribute(node, name);
  if (attribute == nullptr || attribute->g == nullptr)
    throw Refusal(message("has no graph '", name, "'"), "repair the file");
  return *attribute->g;
}

std::vector<std::int64_t> integers_of(const NodeProto& node, std::string_view name, std::size_t count,
                                      std::int64_t absent) {
  const AttributeProto* attribute = find_attribute(node, name);
  std::vector<std::int64_t> values = attribute == nullptr ? std::vector<std::int64_t>{} : attribute->ints;
  values.resize(count, absent);
  return values;
}

constexpr const char* too_many = "shorten it, or raise LoadOptions::most_nodes if the file can be trusted";

/// The one value of a condition or count.
double known_value(const Item& item, const std::string& what) {
  if (!item.known && !item.parameter)
    throw Refusal(message("decides by ", what, ", which is known only when the graph runs"),
                  "give the model's inputs that lead to it in LoadOptions::constants");
  if (item.tensor.numel() != 1) throw Refusal(message("has ", what, " of shape ", item.tensor.shape()), "");
  return item.tensor.detach().values()[0];
}

/// The one integer of a count. A double has not all of them: exporters write the largest one.
std::int64_t known_count(const Item& item, const std::string& what) {
  const double value = known_value(item, what);
  if (item.tensor.dtype() == DType::int64) return item.tensor.detach().to_vector<std::int64_t>()[0];
  if (is_floating(item.tensor.dtype()))
    throw Refusal(message("has ", what, " of ", item.tensor.dtype(), ", expected int64"), "repair the file");
  return static_cast<std::int64_t>(value);
}

/// The values of all iterations, stacked along an axis.
Item stacked(const std::vector<Item>& steps, std::int64_t axis) {
  Item result;
  std::vector<Tensor> tensors;
  bool known = true;
  for (const Item& step : steps) {
    if (step.missing) return {.missing = true};
    if (step.element != steps[0].element) throw Refusal("stacks elements of different types", "repair the file");
    known = known && step.known;
    result.by_batch = result.by_batch || step.by_batch;
    tensors.push_back(step.tensor);
  }
  result.known = known;
  result.element = steps.empty() ? 0 : steps[0].element;
  if (!known) result.by_batch = false;
  const operators::Listening nobody(known ? nullptr : detail::hearing.listener);
  result.tensor = op::stack(tensors, axis);
  return result;
}

}  // namespace

std::vector<Item> Importer::run_body(const GraphProto& body, const std::vector<Item>& inputs, Frame& frame) {
  Values values(&frame.values);
  for (const TensorProto& proto : body.initializers)
    values.set(proto.name, {.tensor = to_tensor(proto, model_.folder),
                            .element = narrow_of(proto.type) != nullptr ? proto.type : 0,
                            .known = true});
  if (inputs.size() > body.inputs.size())
    throw Refusal(message("has a graph with ", body.inputs.size(), " inputs, expected ", inputs.size()),
                  "repair the file");
  for (std::size_t i = 0; i < inputs.size(); ++i) values.set(body.inputs[i].name, inputs[i]);
  Frame own{values, frame.opsets, frame.attributes, frame.depth + 1};
  run_nodes(body.nodes, own);
  std::vector<Item> results;
  for (const ValueProto& output : body.outputs) {
    const Item* item = values.find(output.name);
    if (item == nullptr) throw Refusal(message("has a graph in which nothing makes '", output.name, "'"), "");
    results.push_back(*item);
  }
  return results;
}

std::vector<Item> Importer::run_if(const NodeProto& node, const std::vector<const Item*>& inputs, Frame& frame) {
  if (inputs.empty() || inputs[0] == nullptr) throw Refusal("has no condition", "repair the file");
  const bool condition = known_value(*inputs[0], "its condition") != 0;
  return run_body(body_of(node, condition ? "then_branch" : "else_branch"), {}, frame);
}

std::vector<Item> Importer::run_loop(const NodeProto& node, const std::vector<const Item*>& inputs, Frame& frame) {
  const GraphProto& body = body_of(node, "body");
  if (inputs.size() < 2) throw Refusal("has fewer than two inputs", "repair the file");
  const bool bounded = inputs[0] != nullptr;
  if (!bounded && inputs[1] == nullptr) throw Refusal("never ends", "repair the file");
  const std::int64_t most = bounded ? known_count(*inputs[0], "its number of iterations") : 0;
  Item condition{.tensor = full({}, true, DType::boolean), .known = true};
  if (inputs[1] != nullptr) condition = *inputs[1];
  std::vector<Item> state;
  for (std::size_t i = 2; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) throw Refusal("leaves out a value that it changes", "repair the file");
    state.push_back(*inputs[i]);
  }
  const std::size_t kept = state.size();
  if (body.outputs.size() < kept + 1) throw Refusal("has a graph with too few results", "repair the file");
  std::vector<std::vector<Item>> scanned(body.outputs.size() - 1 - kept);
  for (std::int64_t i = 0; !bounded || i < most; ++i) {
    if (known_value(condition, "its condition") == 0) break;
    if (--budget_ < 0) throw Refusal("has too many iterations", too_many);
    std::vector<Item> given{{.tensor = scalar(i), .known = true}, condition};
    given.insert(given.end(), state.begin(), state.end());
    std::vector<Item> made = run_body(body, given, frame);
    if (made[0].missing) return std::vector<Item>(node.outputs.size(), Item{.missing = true});
    condition = made[0];
    for (std::size_t k = 0; k < kept; ++k) state[k] = made[1 + k];
    for (std::size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(made[1 + kept + k]);
  }
  for (std::size_t k = 0; k < scanned.size(); ++k) {
    if (scanned[k].empty() && kept + k < node.outputs.size() && !node.outputs[kept + k].empty())
      throw Refusal("has no iterations, so its result has no shape", "");
    state.push_back(scanned[k].empty() ? Item{} : stacked(scanned[k], 0));
  }
  return state;
}

std::vector<Item> Importer::run_scan(const NodeProto& node, const std::vector<const Item*>& inputs, Frame& frame) {
  const GraphProto& body = body_of(node, "body");
  const AttributeProto* count = find_attribute(node, "num_scan_inputs");
  if (count == nullptr) throw Refusal("has no attribute 'num_scan_inputs'", "repair the file");
  const auto opset = frame.opsets.find("");
  const bool batched = opset != frame.opsets.end() && opset->second < 9;
  if (batched) throw Refusal("of operator set 8 has a batch of sequences", "convert the model to operator set 9");
  const auto scanned = static_cast<std::size_t>(count->i);
  if (count->i < 1 || scanned > inputs.size()) throw Refusal("has a wrong 'num_scan_inputs'", "repair the file");
  const std::size_t kept = inputs.size() - scanned;
  if (body.outputs.size() < kept) throw Refusal("has a graph with too few results", "repair the file");
  const std::size_t made_count = body.outputs.size() - kept;
  const auto in_axes = integers_of(node, "scan_input_axes", scanned, 0);
  const auto out_axes = integers_of(node, "scan_output_axes", made_count, 0);
  const auto in_backwards = integers_of(node, "scan_input_directions", scanned, 0);
  const auto out_backwards = integers_of(node, "scan_output_directions", made_count, 0);
  std::vector<Item> state;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) throw Refusal("leaves out an input", "repair the file");
    if (i < kept) state.push_back(*inputs[i]);
  }
  const std::int64_t steps = inputs[kept]->tensor.size(in_axes[0]);
  std::vector<std::vector<Item>> outputs(made_count);
  for (std::int64_t step = 0; step < steps; ++step) {
    if (--budget_ < 0) throw Refusal("has too many iterations", too_many);
    std::vector<Item> given = state;
    for (std::size_t k = 0; k < scanned; ++k) {
      const Item& whole = *inputs[kept + k];
      if (whole.tensor.size(in_axes[k]) != steps)
        throw Refusal(message("scans ", whole.tensor.size(in_axes[k]), " and ", steps, " steps"), "repair the file");
      Item one = whole;
      one.parameter = false;
      const std::int64_t at = in_backwards[k] != 0 ? steps - 1 - step : step;
      const operators::Listening nobody(whole.known ? nullptr : detail::hearing.listener);
      one.tensor = op::squeeze(op::slice(whole.tensor, in_axes[k], at, at + 1), {in_axes[k]});
      if (whole.known) one.tensor = one.tensor.clone();
      given.push_back(std::move(one));
    }
    std::vector<Item> made = run_body(body, given, frame);
    for (std::size_t k = 0; k < kept; ++k) state[k] = made[k];
    for (std::size_t k = 0; k < made_count; ++k) outputs[k].push_back(made[kept + k]);
  }
  for (std::size_t k = 0; k < made_count; ++k) {
    if (outputs[k].empty()) throw Refusal("has no iterations, so its result has no shape", "");
    if (out_backwards[k] != 0) std::reverse(outputs[k].begin(), outputs[k].end());
    state.push_back(stacked(outputs[k], out_axes[k]));
  }
  return state;
}

}  // namespace tern::onnx
