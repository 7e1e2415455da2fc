#include "onnx/importer.hpp"

#include <algorithm>

#include "memory/no_memory.hpp"
#include "onnx/narrow.hpp"
#include "onnx/table.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/observer.hpp"

namespace tern::onnx {

namespace {

constexpr int deepest_call = 64;
constexpr auto int16 = static_cast<std::int64_t>(Element::int16);

/// Which node runs, for traces and for the messages of errors.
class InNode final : public Whereabouts {
 public:
  explicit InNode(const NodeProto& node) : node_(node) {}
  std::string describe() const override { return message(label_of(node_), ", ", node_.type); }

 private:
  const NodeProto& node_;
};

/// Whether two tensors are one value of a graph.
bool same_elements(const Tensor& a, const Tensor& b) {
  return a.shared_storage() == b.shared_storage() && a.offset() == b.offset() && a.dtype() == b.dtype() &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

/// A known value with a storage of its own: a view of another one's would be unknown to the tracer once that is used.
Tensor own_elements(const Tensor& x, const std::vector<const Item*>& inputs) {
  for (const Item* input : inputs) {
    if (input == nullptr || input->tensor.shared_storage() != x.shared_storage()) continue;
    return same_elements(x, input->tensor) ? x : x.clone();
  }
  return x.contiguous();
}

std::string full_name(const NodeProto& node) { return node.domain.empty() ? node.type : node.domain + '.' + node.type; }

/// The inputs of a node for a message: names, dtypes and shapes.
std::string inputs_text(const NodeProto& node, const Values& values) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(node.inputs.size(), most); ++i) {
    if (node.inputs[i].empty()) continue;
    const Item* item = values.find(node.inputs[i]);
    text += message(text.empty() ? "'" : ", '", node.inputs[i], '\'');
    if (item != nullptr && item->tensor.defined())
      text += message(' ', item->tensor.dtype(), ' ', item->tensor.shape());
  }
  return node.inputs.size() > most ? text + ", ..." : text;
}

/// Operators whose results have sizes that follow from elements.
bool sized_by_values(std::string_view type) {
  return type == "NonZero" || type == "Compress" || type == "Unique" || type == "NonMaxSuppression";
}
/// Operators that make large tensors of small ones. Where their sizes follow the batch they belong to the graph, but
/// for lists of integers, of which shapes and paddings are made.
bool spreads(std::string_view type) { return type == "ConstantOfShape" || type == "Expand" || type == "Tile"; }
bool is_list(const Tensor& x) { return x.dtype() == DType::int64 && x.rank() <= 1; }
/// Operators that hand elements of any type on, of their first input.
bool moves(std::string_view type) {
  constexpr std::string_view all[]{"Identity", "Reshape", "Flatten",  "Squeeze",        "Unsqueeze", "Transpose",
                                   "Slice",    "Split",   "Concat",   "Expand",         "Tile",      "Gather",
                                   "GatherND", "Pad",     "Compress", "GatherElements", "Dropout"};
  return std::ranges::find(all, type) != std::end(all);
}
/// Operators that know of elements which no tensor has.
bool knows_elements(std::string_view type) {
  constexpr std::string_view all[]{"Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "Shape", "Size"};
  return std::ranges::find(all, type) != std::end(all);
}
/// Operators that compute with int16 as with int32, of whose results the upper bits are lost.
bool counts(std::string_view type) {
  constexpr std::string_view all[]{"Add",        "Sub",
                                   "Mul",        "Div",
                                   "Mod",        "Max",
                                   "Min",        "Sum",
                                   "Neg",        "Abs",
                                   "Sign",       "Where",
                                   "Clip",       "Equal",
                                   "Greater",    "Less",
                                   "BitShift",   "BitwiseAnd",
                                   "BitwiseOr",  "BitwiseXor",
                                   "BitwiseNot", "GreaterOrEqual",
                                   "LessOrEqual"};
  return std::ranges::find(all, type) != std::end(all);
}
bool reads_shape(std::string_view type) { return type == "Shape" || type == "Size"; }

const AttributeProto* of_call(const AttributeProto& attribute, const Frame& frame) {
  if (attribute.refers.empty() || frame.attributes == nullptr) return &attribute;
  const auto found = frame.attributes->find(attribute.refers);
  return found == frame.attributes->end() ? nullptr : &found->second;
}

bool has_references(const NodeProto& node) {
  return std::ranges::any_of(node.attributes, [](const AttributeProto& each) { return !each.refers.empty(); });
}

/// A node of a function with the attributes of the call in it.
NodeProto resolved(const NodeProto& node, const Frame& frame) {
  NodeProto own = node;
  own.attributes.clear();
  for (const AttributeProto& attribute : node.attributes)
    if (const AttributeProto* given = of_call(attribute, frame)) {
      own.attributes.push_back(*given);
      own.attributes.back().name = attribute.name;
    }
  return own;
}

}  // namespace

const AttributeProto* find_attribute(const NodeProto& node, std::string_view name) {
  for (const AttributeProto& attribute : node.attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

const Item* Values::find(const std::string& name) const {
  for (const Values* values = this; values != nullptr; values = values->outer_)
    if (const auto found = values->items_.find(name); found != values->items_.end()) return &found->second;
  return nullptr;
}

void Importer::lack(const std::string& node, const std::string& op, const std::string& what, const std::string& advice,
                    const std::string& inputs) {
  for (Lack& known : lacks_)
    if (known.op == op && known.what == what) {
      ++known.count;
      return;
    }
  lacks_.push_back({node, op, what, advice, 1, inputs});
}

std::vector<Tensor> Importer::run(const std::vector<Tensor>& given, bool first) {
  lacks_.clear();
  budget_ = options_.most_nodes;
  Values values;
  for (const auto& [name, item] : initializers_) values.set(name, item);
  for (std::size_t i = 0; i < given.size(); ++i)
    values.set(inputs_[i].name, {.tensor = given[i], .element = inputs_[i].element});
  Frame frame{values, model_.opsets};
  run_nodes(model_.graph.nodes, frame);

  std::vector<Tensor> results;
  std::vector<Tensor> taken = given;
  bool missing = false;
  const auto is_taken = [&](const Tensor& x) {
    return std::ranges::any_of(taken, [&](const Tensor& other) { return same_elements(x, other); });
  };
  for (const ValueProto& output : model_.graph.outputs) {
    const Item* item = values.find(output.name);
    if (item == nullptr) {
      lack("", "", message("nothing makes the output '", output.name, "'"), "repair the file");
      continue;
    }
    missing |= item->missing;
    if (item->missing) continue;
    // Each output is a value of its own, so that each has its name.
    const bool own = !item->known && !item->parameter && !is_taken(item->tensor);
    results.push_back(own ? item->tensor : op::copy(item->tensor));
    taken.push_back(results.back());
  }
  if (lacks_.empty() && !missing) return results;
  // The first run lists what is lacking; a larger batch that does not fit leaves all sizes fixed.
  if (first) throw OnnxError(name_, lacks_);
  throw graph::GraphError(lacks_[0].what);
}

void Importer::run_nodes(const std::vector<NodeProto>& nodes, Frame& frame) {
  if (frame.depth > deepest_call)
    throw OnnxError(name_, {{"", "", "has functions or graphs that contain each other", "repair the file"}});
  for (const NodeProto& node : nodes) {
    if (frame.attributes != nullptr && has_references(node))
      run_node(resolved(node, frame), frame);
    else
      run_node(node, frame);
  }
}

void Importer::run_node(const NodeProto& node, Frame& frame) {
  const InNode here(node);
  const std::string label = label_of(node), type = full_name(node);
  if (--budget_ < 0)
    throw OnnxError(name_, {{label, type, message("is beyond the ", options_.most_nodes, " nodes that may run"),
                             "shorten its loops, or raise LoadOptions::most_nodes if the file can be trusted"}});
  constexpr const char* mend = "mend the model, or report this if another program runs it";
  const auto lacking = [&](const std::string& what, const std::string& advice) {
    lack(label, type, what, advice.empty() ? mend : advice, inputs_text(node, frame.values));
  };
  const auto skip = [&] {
    for (const std::string& output : node.outputs) frame.values.set(output, {.missing = true});
  };
  try {
    const auto own = options_.operators.find(type);
    const auto function = std::ranges::find_if(model_.functions, [&](const FunctionProto& each) {
      return each.name == node.type && each.domain == node.domain && each.overload == node.overload;
    });
    const auto builtin = table().find(type);
    const bool flexible = type == "ai.onnx.preview.FlexAttention";
    const bool control = type == "If" || type == "Loop" || type == "Scan" || flexible;
    const bool is_own = own != options_.operators.end(), is_function = function != model_.functions.end();
    if (!is_own && !is_function && builtin == table().end() && !control)
      throw Refusal("is no operator that Tern knows",
                    message("give a function for it: LoadOptions{.operators = {{\"", type, "\", function}}}"));
    std::vector<const Item*> inputs;
    for (const std::string& name : node.inputs) {
      inputs.push_back(name.empty() ? nullptr : frame.values.find(name));
      if (!name.empty() && inputs.back() == nullptr)
        throw Refusal(message("reads '", name, "', which nothing before it makes"), "repair the file");
      if (inputs.back() != nullptr && inputs.back()->missing) return skip();
    }
    const auto unsized = std::ranges::find_if(inputs, [](const Item* each) { return each && each->unsized; });
    if (unsized != inputs.end() && type != "Transpose")  // which needs no sizes, and which onnx::save writes
      throw Refusal(message("reads '", node.inputs[unsized - inputs.begin()], "', whose size depends on values"),
                    "a graph has fixed sizes; end the model before it");
    const auto opset = frame.opsets.find(node.domain);
    const std::int64_t version = opset == frame.opsets.end() ? 1 : opset->second;
    std::vector<Item> results;
    if (is_own)
      results = results_of(node, own->second, version, inputs);
    else if (is_function)
      results = call_function(*function, node, inputs, frame);
    else if (type == "If")
      results = run_if(node, inputs, frame);
    else if (type == "Loop")
      results = run_loop(node, inputs, frame);
    else if (type == "Scan")
      results = run_scan(node, inputs, frame);
    else if (flexible)
      results = run_flex_attention(node, inputs, frame);
    else
      results = results_of(node, builtin->second, version, inputs);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (i >= results.size() || (!results[i].tensor.defined() && !results[i].missing))
        throw Refusal(message("has no result ", i, " here"), "");
      frame.values.set(node.outputs[i], results[i]);
    }
  } catch (const OnnxError&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const NoElements&) {  // the whole model runs then
    throw;
  } catch (const Refusal& refusal) {
    lacking(refusal.what(), refusal.advice());
    skip();
  } catch (const Error& error) {
    lacking(error.what(), "");
    skip();
  }
}

std::vector<Item> Importer::results_of(const NodeProto& node, const Operator& function, std::int64_t opset,
                                       const std::vector<const Item*>& inputs) {
  const auto any = [&](const auto& holds) {
    return std::ranges::any_of(inputs, [&](const Item* each) { return each != nullptr && holds(*each); });
  };
  const bool all_known = !any([](const Item& each) { return !each.known; });
  const bool follows_values = any([](const Item& each) { return each.unsized; });
  const bool by_batch = any([](const Item& each) { return each.by_batch; });
  const bool shape = node.domain.empty() && reads_shape(node.type);
  bool now = shape || all_known;

  const auto carried = std::ranges::find_if(inputs, [](const Item* each) { return each && each->element != 0; });
  const bool moved = node.domain.empty() && moves(node.type);
  const bool counted =
      carried != inputs.end() && node.domain.empty() && counts(node.type) &&
      !any([&](const Item& each) { return each.element != int16 && each.tensor.dtype() != DType::boolean; });
  if (carried != inputs.end()) {
    const bool same = std::ranges::none_of(inputs, [&](const Item* each) {
      return each != nullptr && each->element != inputs[0]->element && node.type == "Concat";
    });
    if (!(moved && inputs[0] != nullptr && inputs[0]->element != 0 && same) && !counted &&
        !(node.domain.empty() && knows_elements(node.type)) && !options_.operators.contains(full_name(node)))
      throw Refusal(message("computes with elements of ", name_of_element((*carried)->element)),
                    "cast them to float32 or int32 before it");
  }
  Call::State state{node, opset, inputs, options_.largest_tensor, model_.folder};
  const Call call(state);
  std::vector<Tensor> tensors;
  const auto made = [&] {
    Results results = function(call);
    if (counted && results.at(0).dtype() == DType::int32) {
      results[0] = wrapped_to(results[0], 16, true, DType::int32);
      call.makes(int16);
    }
    return results;
  };
  if (now) {
    const operators::Listening nobody(nullptr);
    const Device host(reference_mode());
    tensors = made();
    for (Tensor& each : tensors)
      if (each.defined()) each = own_elements(each, inputs);
    now = !(by_batch && spreads(node.type) && !is_list(tensors.at(0)));
  }
  if (!now) tensors = made();
  for (const AttributeProto& attribute : node.attributes)
    if (!state.read.contains(attribute.name))
      throw Refusal(message("has an attribute '", attribute.name, "' that Tern does not know"),
                    "convert the model to a newer operator set");
  std::vector<Item> items;
  for (Tensor& each : tensors) {
    if (each.defined()) call.check_size(each.shape());
    Item item{.tensor = std::move(each),
              .element = moved && carried != inputs.end() ? inputs[0]->element : state.made,
              .known = now};
    item.by_batch = now && (by_batch || (shape && !all_known && batch_ && !inputs[0]->parameter));
    item.unsized = !now && (sized_by_values(node.type) || follows_values);
    // What hands a parameter on is one.
    if (!now && item.tensor.defined())
      for (const Item* input : inputs)
        if (input != nullptr && input->parameter && input->tensor.is(item.tensor)) item.parameter = true;
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<Item> Importer::call_function(const FunctionProto& function, const NodeProto& node,
                                          const std::vector<const Item*>& inputs, const Frame& frame) {
  Values values;
  std::map<std::string, AttributeProto> attributes;
  for (const AttributeProto& attribute : function.defaults) attributes.emplace(attribute.name, attribute);
  for (const AttributeProto& attribute : node.attributes) attributes.insert_or_assign(attribute.name, attribute);
  if (inputs.size() > function.inputs.size())
    throw Refusal(message("has ", inputs.size(), " inputs; its function has ", function.inputs.size()),
                  "repair the file");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != nullptr) values.set(function.inputs[i], *inputs[i]);
  Frame own{values, function.opsets, &attributes, frame.depth + 1};
  // An input that the call leaves out is left out inside, too.
  std::vector<NodeProto> nodes = function.nodes;
  for (NodeProto& each : nodes)
    for (std::string& name : each.inputs) {
      const auto position = std::ranges::find(function.inputs, name) - function.inputs.begin();
      const bool is_input = position < std::ssize(function.inputs);
      if (is_input && (position >= std::ssize(inputs) || inputs[position] == nullptr)) name.clear();
    }
  run_nodes(nodes, own);
  std::vector<Item> results;
  for (std::size_t i = 0; i < function.outputs.size(); ++i) {
    const Item* item = values.find(function.outputs[i]);
    results.push_back(item == nullptr ? Item{} : *item);
  }
  return results;
}

}  // namespace tern::onnx
