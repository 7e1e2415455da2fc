#include "run/operands.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "tensor/places.hpp"
#include "tern/core/convert.hpp"
#include "tern/modes/device.hpp"

namespace tern {

namespace {

// The dimensions of a view that have more than one place, in memory order, starting at its first place.
struct Runs {
  std::vector<std::int64_t> size, stride;

  explicit Runs(const Tensor& view) {
    std::vector<std::pair<std::int64_t, std::int64_t>> dims;
    for (int i = 0; i < view.rank(); ++i)
      if (view.shape()[i] > 1 && view.strides()[i] != 0)
        dims.emplace_back(std::abs(view.strides()[i]), view.shape()[i]);
    std::ranges::sort(dims);
    for (const auto& [step, count] : dims) {
      // Merges a dimension that follows without a gap.
      if (!size.empty() && step == stride.back() * size.back()) {
        size.back() *= count;
      } else {
        stride.push_back(step);
        size.push_back(count);
      }
    }
    if (size.empty() || stride[0] != 1) {
      size.insert(size.begin(), 1);
      stride.insert(stride.begin(), 1);
    }
  }

  /// Calls visit(place) for the first place of each run of size[0] elements.
  template <class Visit>
  void for_each_run(Visit visit, std::size_t dim, std::int64_t place = 0) const {
    if (dim == 0) {
      visit(place);
      return;
    }
    for (std::int64_t i = 0; i < size[dim]; ++i) for_each_run(visit, dim - 1, place + i * stride[dim]);
  }
  template <class Visit>
  void for_each_run(Visit visit) const {
    for_each_run(visit, size.size() - 1);
  }
};

}  // namespace

ViewBytes::ViewBytes(const Tensor& view, bool reads) {
  if (view.numel() == 0) return;
  const Reach reach = reach_of(view);
  first_ = reach.before;
  const std::size_t element = size_of(view.dtype());
  bytes_.resize(static_cast<std::size_t>(reach.count) * element);
  if (!reads) return;
  // Bytes between the elements do not belong to the view; they may be unwritten.
  const Runs runs(view);
  const std::size_t run = static_cast<std::size_t>(runs.size[0]) * element;
  runs.for_each_run([&](std::int64_t place) {
    const std::size_t at = static_cast<std::size_t>(place) * element;
    view.storage().peek(static_cast<std::size_t>(view.offset() - first_) * element + at,
                        std::span(bytes_).subspan(at, run));
  });
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

std::string text_of(const operators::OpCall& call) {
  const std::string attributes = call.op.write(call.attributes);
  return attributes.empty() ? call.op.name() : call.op.name() + ' ' + attributes;
}

std::string describe(const OperatorCall& call) {
  std::string text = message(call.name(), call.backward() ? " backward" : "", " in ", current_scope().mode->name);
  for (std::size_t i = 0; i < call.algorithms().size(); ++i)
    text += message(i == 0 ? " (" : ", ", call.algorithms()[i].first, ':', call.algorithms()[i].second);
  if (!call.algorithms().empty()) text += ')';
  if (call.source() != nullptr)
    if (const std::string source = text_of(*call.source()); source != call.name()) text += ", for " + source;
  if (const std::string where = whereabouts(); !where.empty()) text += message(", at ", where);
  // Larger ones first: images, then weights, then biases.
  std::vector<const Tensor*> inputs;
  for (const Operand& operand : call.operands())
    if (operand.role != Role::out) inputs.push_back(operand.tensor);
  std::ranges::stable_sort(inputs, std::greater(), [](const Tensor* x) { return std::pair(x->rank(), x->numel()); });
  for (std::size_t i = 0; i < inputs.size() && i < 3; ++i)
    text += message(i == 0 ? ", of " : " and ", inputs[i]->dtype(), ' ', inputs[i]->shape());
  return inputs.size() > 3 ? text + " and more" : text;
}

}  // namespace tern
