#include "tern/onnx/call.hpp"

#include <algorithm>

#include "onnx/narrow.hpp"
#include "onnx/state.hpp"

namespace tern::onnx {

namespace {

const AttributeProto* find(Call::State& state, std::string_view name) {
  state.read.emplace(name);
  for (const AttributeProto& attribute : state.node.attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

const AttributeProto* find(const Call& call, Call::State& state, std::string_view name, std::int32_t type) {
  const AttributeProto* found = find(state, name);
  if (found != nullptr && found->type != type)
    call.refuse(message("has an attribute '", name, "' of another type than its schema"), "repair the file");
  return found;
}

}  // namespace

std::string label_of(const NodeProto& node) {
  if (!node.name.empty()) return node.name;
  for (const std::string& output : node.outputs)
    if (!output.empty()) return output;
  return node.type;
}

const std::string& Call::type() const { return state_.node.type; }
std::int64_t Call::opset() const { return state_.opset; }
int Call::inputs() const { return static_cast<int>(state_.inputs.size()); }
bool Call::has(int i) const { return i < inputs() && state_.inputs[i] != nullptr; }

const Tensor& Call::input(int i) const {
  if (!has(i)) refuse(message("has no input ", i), "repair the file");
  return state_.inputs[i]->tensor;
}
std::int64_t Call::element(int i) const { return has(i) ? state_.inputs[i]->element : 0; }
void Call::makes(std::int64_t element) const { state_.made = element; }
Tensor Call::optional(int i) const { return has(i) ? input(i) : Tensor{}; }

std::vector<Tensor> Call::all_inputs() const {
  std::vector<Tensor> tensors;
  for (int i = 0; i < inputs(); ++i) tensors.push_back(input(i));
  return tensors;
}

bool Call::knows(int i) const { return has(i) && (state_.inputs[i]->known || state_.inputs[i]->parameter); }

std::vector<std::int64_t> Call::known_integers(int i) const {
  const Tensor& x = input(i);
  if (!knows(i))
    refuse(message("decides by the values of '", state_.node.inputs[i], "', which are known only when the graph runs"),
           "give the model's inputs that lead to it in LoadOptions::constants");
  if (x.dtype() == DType::int64) return x.to_vector<std::int64_t>();
  if (is_floating(x.dtype())) refuse(message("has a floating input ", i), "repair the file");
  // Read, not converted by an operator, which a graph would hear.
  std::vector<std::int64_t> integers;
  for (const double value : x.detach().values()) integers.push_back(static_cast<std::int64_t>(value));
  return integers;
}

std::vector<double> Call::known_numbers(int i) const {
  const Tensor& x = input(i);
  if (!knows(i))
    refuse(message("decides by the values of '", state_.node.inputs[i], "', which are known only when the graph runs"),
           "give the model's inputs that lead to it in LoadOptions::constants");
  return x.detach().values();
}

double Call::known_number(int i) const {
  const std::vector<double> values = known_numbers(i);
  if (values.size() != 1) refuse(message("has ", values.size(), " values in input ", i, ", expected one"));
  return values[0];
}
std::int64_t Call::known_integer(int i) const {
  const std::vector<std::int64_t> values = known_integers(i);
  if (values.size() != 1) refuse(message("has ", values.size(), " values in input ", i, ", expected one"));
  return values[0];
}

bool Call::has_attribute(std::string_view name) const { return find(state_, name) != nullptr; }
std::int64_t Call::integer(std::string_view name, std::int64_t absent) const {
  const AttributeProto* found = find(*this, state_, name, AttributeProto::integer);
  return found == nullptr ? absent : found->i;
}
std::int64_t Call::integer(std::string_view name) const {
  if (!has_attribute(name)) refuse(message("has no attribute '", name, "'"), "repair the file");
  return integer(name, 0);
}
double Call::number(std::string_view name, double absent) const {
  const AttributeProto* found = find(*this, state_, name, AttributeProto::number);
  return found == nullptr ? absent : static_cast<double>(found->f);
}
std::string Call::text(std::string_view name, const std::string& absent) const {
  const AttributeProto* found = find(*this, state_, name, AttributeProto::text);
  return found == nullptr ? absent : found->s;
}
std::vector<std::int64_t> Call::integers(std::string_view name, const std::vector<std::int64_t>& absent) const {
  const AttributeProto* found = find(*this, state_, name, AttributeProto::integers);
  return found == nullptr ? absent : found->ints;
}
std::vector<double> Call::numbers(std::string_view name) const {
  const AttributeProto* found = find(*this, state_, name, AttributeProto::numbers);
  return found == nullptr ? std::vector<double>{} : std::vector<double>(found->floats.begin(), found->floats.end());
}
std::vector<std::string> Call::texts(std::string_view name) const {
  const AttributeProto* found = find(*this, state_, name, AttributeProto::texts);
  return found == nullptr ? std::vector<std::string>{} : found->strings;
}
Tensor Call::tensor(std::string_view name) const {
  const AttributeProto* found = find(*this, state_, name, AttributeProto::tensor);
  if (found == nullptr) return {};
  if (found->t == nullptr) refuse(message("has an attribute '", name, "' without a tensor"), "repair the file");
  if (narrow_of(found->t->type) != nullptr) makes(found->t->type);
  return to_tensor(*found->t, state_.folder);
}
void Call::ignore(std::initializer_list<std::string_view> names) const {
  state_.read.insert(names.begin(), names.end());
}

int Call::results() const { return static_cast<int>(state_.node.outputs.size()); }
bool Call::wants(int i) const { return i < results() && !state_.node.outputs[i].empty(); }

void Call::refuse(const std::string& what, const std::string& advice) const { throw Refusal(what, advice); }

void Call::check_size(const Shape& shape) const {
  if (element_count(shape) > state_.largest)
    refuse(message("makes a tensor of ", shape), "raise LoadOptions::largest_tensor if the file can be trusted");
}

}  // namespace tern::onnx
