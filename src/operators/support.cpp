#include "operators/support.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <span>

namespace tern::operators {

kernels::Broadcast run_of(std::int64_t count, std::size_t inputs) {
  kernels::Broadcast result;
  result.count = count;
  result.rank = 1;
  result.size[0] = count;
  for (std::size_t k = 0; k < inputs; ++k) result.stride[k][0] = 1;
  return result;
}

kernels::Broadcast make_broadcast(const Shape& shape, std::initializer_list<const Tensor*> inputs) {
  kernels::Broadcast result;
  for (int i = 0; i < shape.rank(); ++i) result.count *= shape[i];
  // The common case needs no loop over dimensions.
  bool plain = result.count > 1;
  for (const Tensor* input : inputs) plain = plain && input->is_contiguous() && input->numel() == result.count;
  if (plain) return run_of(result.count, inputs.size());
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    std::int64_t stride[3] = {};
    int which = 0;
    for (const Tensor* input : inputs) {
      const int own = i - (shape.rank() - input->rank());
      stride[which++] = own < 0 || input->shape()[own] == 1 ? 0 : input->strides()[own];
    }
    // Merges into the dimension before when every input steps over that one as if it were a row of this.
    const int last = result.rank - 1;
    bool merges = last >= 0;
    for (int k = 0; merges && k < which; ++k) merges = result.stride[k][last] == stride[k] * shape[i];
    const int place = merges ? last : result.rank++;
    result.size[place] = merges ? result.size[place] * shape[i] : shape[i];
    for (int k = 0; k < which; ++k) result.stride[k][place] = stride[k];
  }
  return result;
}

bool may_overlap(const Tensor& x) {
  if (x.is_contiguous()) return false;
  int order[Shape::max_rank];
  std::iota(order, order + x.rank(), 0);
  std::stable_sort(order, order + x.rank(),
                   [&](int a, int b) { return std::abs(x.strides()[a]) < std::abs(x.strides()[b]); });
  std::int64_t reach = 0;
  for (const int i : std::span(order, static_cast<std::size_t>(x.rank()))) {
    if (x.shape()[i] == 1) continue;
    const std::int64_t stride = std::abs(x.strides()[i]);
    if (stride <= reach) return true;
    reach += stride * (x.shape()[i] - 1);
  }
  return false;
}

void copy_elements(const Tensor& out, const Tensor& in) {
  if (out.numel() == 0) return;
  kernels::Strided strided;
  // In the order of the output's memory, so that runs of it become one dimension whatever the shape's order is.
  int order[Shape::max_rank];
  std::iota(order, order + out.rank(), 0);
  std::stable_sort(order, order + out.rank(), [&](int a, int b) { return out.strides()[a] > out.strides()[b]; });
  for (const int i : std::span(order, out.rank())) {
    const std::int64_t size = out.shape()[i], to = out.strides()[i], from = in.strides()[i];
    if (size == 1) continue;
    strided.count *= size;
    const int last = strided.rank - 1;
    if (last >= 0 && strided.out[last] == to * size && strided.in[last] == from * size) {
      strided.size[last] *= size;
      strided.out[last] = to;
      strided.in[last] = from;
    } else {
      strided.size[strided.rank] = size;
      strided.out[strided.rank] = to;
      strided.in[strided.rank++] = from;
    }
  }
  const ProfileSpan span("copy", {&in, &out});
  Scope& scope = current_scope();
  const std::size_t element = size_of(out.dtype());
  const bool whole = static_cast<std::size_t>(out.numel()) * element == out.storage().bytes();
  const auto* source =
      static_cast<const std::byte*>(in.storage().read(scope)) + in.offset() * static_cast<std::int64_t>(element);
  auto* target = static_cast<std::byte*>(whole ? out.storage().write(scope) : out.storage().update(scope)) +
                 out.offset() * static_cast<std::int64_t>(element);
  scope.mode->movement.copy(scope.context, target, source, strided, element);
}

Tensor checked_labels(const char* op, const Tensor& labels, std::int64_t bound, std::int64_t ignored) {
  check_rank(op, "the label tensor", labels, 1);
  expects<DTypeError>(labels.dtype() == DType::int64, op, ": labels are ", labels.dtype(),
                      ", expected int64; convert with to(...)");
  const Tensor whole = labels.detach().contiguous();
  if (current_scope().mode->memory->host_accessible()) {
    const auto values = whole.read<std::int64_t>();
    for (std::size_t i = 0; i < values.size(); ++i)
      expects<NumericError>((values[i] >= 0 && values[i] < bound) || values[i] == ignored, op, ": label ", values[i],
                            " at position ", i, " is outside [0, ", bound, ")");
  }
  return whole;
}

}  // namespace tern::operators
