#include "operators/support.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string_view>

#include "tensor/shard_streams.hpp"
#include "tern/core/convert.hpp"

namespace tern::operators {

const Mode& fallback(const Mode& mode, const char* op) {
  const bool backward = RunningBackward::any();
  for (const std::string_view name : mode.own)
    if (backward ? name.ends_with(" backward") && name.substr(0, name.size() - 9) == op : name == op) return mode;
  return tern::mode(mode.inner);
}

void throw_no_compute_type(const char* op, DType dtype) {
  throw DTypeError(message(op, ": inputs are ", dtype, "; operators compute in floating dtypes, convert with to(...)"));
}

void throw_no_integer_type(const char* op, DType dtype) {
  expects<DTypeError>(dtype != DType::int8, op, ": inputs are int8, which only stores; convert with to(...)");
  throw DTypeError(message(op, ": inputs are ", dtype, ", expected integers or bool; convert with to(...)"));
}

bool is_a(DType dtype, double value) {
  return with_type_of(dtype, [&]<class T>(T) {
    // The largest int64 is 2^63 as a double.
    return value != 0x1p63 && convert<double>(convert<T>(value)) == value;
  });
}

Tensor number_beside(const char* op, const Tensor& x, double value) {
  check_defined(op, "the input", x);
  expects<DTypeError>(is_floating(x.dtype()) || is_a(x.dtype(), value), op, ": ", value, " is no ", x.dtype(),
                      "; convert the tensor with to(...)");
  return number_like(x, value);
}

void run_in(const Mode& mode, const std::function<void()>& work) {
  const Device device(mode);
  work();
}

const std::byte* AnyCall::bytes_in(const Tensor& x, double part) const {
  const std::size_t element = size_of(x.dtype());
  if (void* const elsewhere = use(x, Role::in, element, part)) [[unlikely]]
    return static_cast<const std::byte*>(elsewhere);
  return static_cast<const std::byte*>(x.storage().read(scope_)) + x.offset() * static_cast<std::int64_t>(element);
}

std::byte* AnyCall::bytes_out(Tensor& x) const {
  if (void* const elsewhere = use(x, Role::out, size_of(x.dtype()), 1)) [[unlikely]]
    return static_cast<std::byte*>(elsewhere);
  return static_cast<std::byte*>(x.storage().write(scope_));
}

std::byte* AnyCall::bytes_into(const Tensor& x) const {
  const std::size_t element = size_of(x.dtype());
  if (void* const elsewhere = use(x, Role::out, element, 1)) [[unlikely]]
    return static_cast<std::byte*>(elsewhere);
  const bool whole = static_cast<std::size_t>(x.numel()) * element == x.storage().bytes();
  return static_cast<std::byte*>(whole ? x.storage().write(scope_) : x.storage().update(scope_)) +
         x.offset() * static_cast<std::int64_t>(element);
}

random::Key draw(Generator& generator) {
  bool drawn = false;
  random::Key key;
  tell([&](Observer& observer) { drawn = drawn || observer.draw(generator, key); });
  return ShardStreams::shifted(drawn ? key : generator.next());
}

kernels::Broadcast run_of(std::int64_t count, std::size_t inputs) {
  kernels::Broadcast result;
  result.count = count;
  result.rank = 1;
  result.size[0] = count;
  for (std::size_t k = 0; k < inputs; ++k) result.stride[k][0] = 1;
  return result;
}

kernels::Broadcast make_broadcast(const Shape& shape, std::initializer_list<const Tensor*> inputs,
                                  kernels::Layout layout) {
  static constexpr int channels_at_end[] = {0, 2, 3, 1};
  const bool last = layout == kernels::Layout::channels_last;
  kernels::Broadcast result;
  for (int i = 0; i < shape.rank(); ++i) result.count *= shape[i];
  // The common case needs no loop over dimensions.
  bool plain = result.count > 1 && !last;
  for (const Tensor* input : inputs) plain = plain && input->is_contiguous() && input->numel() == result.count;
  if (plain) return run_of(result.count, inputs.size());
  for (int turn = 0; turn < shape.rank(); ++turn) {
    const int i = last ? channels_at_end[turn] : turn;
    if (shape[i] == 1) continue;
    std::int64_t stride[3] = {};
    int which = 0;
    for (const Tensor* input : inputs) {
      const int own = i - (shape.rank() - input->rank());
      stride[which++] = own < 0 || input->shape()[own] == 1 ? 0 : input->strides()[own];
    }
    // Merges with the previous dimension if every input steps over that one as over a row of this one.
    const int before = result.rank - 1;
    bool merges = before >= 0;
    for (int k = 0; merges && k < which; ++k) merges = result.stride[k][before] == stride[k] * shape[i];
    const int place = merges ? before : result.rank++;
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
  // In memory order of the output, so that its runs merge into one dimension whatever the order of the shape.
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
  visit_any("copy", out.dtype(), [&] {
    const AnyCall call;
    const std::byte* const source = call.bytes_in(in);
    call.movement().copy(call.context(), call.bytes_into(out), source, strided, size_of(out.dtype()));
  });
}

namespace {

struct LabelRange {
  std::int64_t bound, ignored;
  const char *op, *which;
};

void check_labels(Context& /*context*/, const std::int64_t* labels, std::int64_t count, const LabelRange& range) {
  for (std::int64_t i = 0; i < count; ++i)
    expects<NumericError>((labels[i] >= 0 && labels[i] < range.bound) || labels[i] == range.ignored, range.op, ": ",
                          range.which, " ", labels[i], " at position ", i, " is outside [0, ", range.bound, ")");
}

}  // namespace

Tensor checked_labels(const char* op, const Tensor& labels, std::int64_t bound, std::int64_t ignored,
                      const char* which) {
  check_defined(op, which, labels);
  expects<ShapeError>(labels.rank() == 1, op, ": the ", which, " tensor has shape ", labels.shape(), ", expected [n]");
  expects<DTypeError>(labels.dtype() == DType::int64, op, ": the ", which, " tensor is ", labels.dtype(),
                      ", expected int64; convert with to(...)");
  Tensor whole = labels.detach().contiguous();
  if (!mode_of(op).on_host() || whole.numel() == 0) return whole;
  const std::int64_t count = whole.numel();
  const LabelRange range{bound, ignored, op, which};
  if (kernels::tape != nullptr && !kernels::tape->skips()) {  // a recording checks each call's labels
    const auto* const pointer = static_cast<const std::int64_t*>(whole.storage().read(current_scope()));
    kernels::run_taped(check_labels, current_scope().context, pointer + whole.offset(), count, range);
  } else {
    check_labels(current_scope().context, whole.read<std::int64_t>().data(), count, range);
  }
  return whole;
}

}  // namespace tern::operators
