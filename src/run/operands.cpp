#include "run/operands.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "tensor/places.hpp"
#include "tern/core/convert.hpp"
#include "tern/modes/device.hpp"

namespace tern {

ViewBytes::ViewBytes(const Tensor& view) {
  if (view.numel() == 0) return;
  const Reach reach = reach_of(view);
  first_ = reach.before;
  const std::size_t element = size_of(view.dtype());
  bytes_.resize(static_cast<std::size_t>(reach.count) * element);
  view.storage().peek(static_cast<std::size_t>(view.offset() - first_) * element, bytes_);
}

double value_at(const std::byte* first, DType dtype, std::int64_t place) {
  return with_type_of(dtype, [&]<class T>(T) {
    T value;
    std::memcpy(&value, first + place * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return convert<double>(value);
  });
}

std::string index_of(const Tensor& tensor, std::int64_t i) {
  std::string text;
  for (int dim = tensor.rank() - 1; dim >= 0; --dim) {
    text = message(i % tensor.shape()[dim], text.empty() ? "" : ", ", text);
    i /= tensor.shape()[dim];
  }
  return message('[', text, ']');
}

std::string describe(const OperatorCall& call) {
  std::string text = message(call.name(), call.backward() ? " backward" : "", " in ", current_scope().mode->name);
  for (std::size_t i = 0; i < call.algorithms().size(); ++i)
    text += message(i == 0 ? " (" : ", ", call.algorithms()[i].first, ':', call.algorithms()[i].second);
  if (!call.algorithms().empty()) text += ')';
  if (const std::string where = whereabouts(); !where.empty()) text += message(", at ", where);
  // The larger ones first: images, then weights, then biases.
  std::vector<const Tensor*> inputs;
  for (const Operand& operand : call.operands())
    if (operand.role != Role::out) inputs.push_back(operand.tensor);
  std::ranges::stable_sort(inputs, std::greater(), [](const Tensor* x) { return std::pair(x->rank(), x->numel()); });
  for (std::size_t i = 0; i < inputs.size() && i < 3; ++i)
    text += message(i == 0 ? ", of " : " and ", inputs[i]->dtype(), ' ', inputs[i]->shape());
  return inputs.size() > 3 ? text + " and more" : text;
}

}  // namespace tern
