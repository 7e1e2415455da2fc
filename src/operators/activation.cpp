#include "tern/operators/activation.hpp"

#include <utility>

#include "operators/temporaries.hpp"
#include "operators/traced.hpp"
#include "operators/unary.hpp"
#include "tern/kernels/tape.hpp"

namespace tern::operators {

namespace {

/// Whether a kernel of single elements may write its results into the memory of a temporary: all of it is this tensor's
/// alone, on the host, and no gradient, observer or recording looks at it.
bool is_spare(const Tensor& x) {
  if (!x.defined() || (x.dtype() != DType::float32 && x.dtype() != DType::float64)) return false;
  if (traces() || observed() || kernels::tape != nullptr || capturing() != nullptr || recording(x)) return false;
  const Mode& mode = *current_scope().mode;
  if (!mode.on_host() || mode.inner != nullptr) return false;
  const auto bytes = static_cast<std::size_t>(x.numel()) * size_of(x.dtype());
  return x.handles() == 1 && x.shared_storage().use_count() == 1 && x.storage().bytes() == bytes &&
         x.storage().valid_in(*mode.memory) && (x.is_contiguous() || layout_of(x) == Layout::channels_last);
}

template <class Slot>
Tensor in_place(const char* op, const Tensor& x, Slot slot) {
  visit(op, x.dtype(), slot, [&]<class T>() {
    const Call<T> call;
    T* const elements = call.inout(x);
    slot(call.table())(call.context(), elements, elements, x.numel());
  });
  return x.detach();
}

template <class Slot>
Tensor along(const char* op, const Tensor& x, int dim, Slot slot) {
  const Tensor whole = dense(x);
  const Layout layout = layout_of(whole);
  Tensor out = empty_in(layout, x.shape(), x.dtype());
  visit(op, x.dtype(), [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.out(out), call.in(whole), axis_in(layout, x.shape(), dim));
  });
  return out;
}

template <class Slot>
Tensor along_backward(const char* op, const Tensor& grad, const Tensor& out, int dim, Slot slot) {
  const Layout layout = layout_of(out);
  const Tensor whole_grad = in_layout(grad, layout);
  Tensor grad_in = empty_in(layout, out.shape(), out.dtype());
  visit(op, out.dtype(), [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.out(grad_in), call.in(whole_grad), call.in(out),
                       axis_in(layout, out.shape(), dim));
  });
  return grad_in;
}

template <class Slot, class Back>
Tensor recorded_along(const char* op, const Tensor& x, std::int64_t dim, Slot slot, Back back) {
  const int place = dim_of(op, dim, x.rank());
  Tensor out = along(op, x, place, slot);
  if (recording(x))
    record(op, out, {x}, [op, out = Saved(out), place, back](const Tensor& grad) {
      return Gradients{along_backward(op, grad, out.get(), place, back)};
    });
  return out;
}

}  // namespace

#define SLOT(name) [](const auto& table) -> decltype((table.activation.name)) { return table.activation.name; }

Tensor relu(const Tensor& x) {
  if (traces()) return traced("relu", x);
  return recorded_unary<Reads::output>("relu", x, SLOT(relu), SLOT(relu_backward));
}

Tensor relu_of(Tensor&& x) { return is_spare(x) ? in_place("relu", x, SLOT(relu)) : relu(x); }
Tensor sigmoid_of(Tensor&& x) { return is_spare(x) ? in_place("sigmoid", x, SLOT(sigmoid)) : sigmoid(x); }
Tensor tanh_of(Tensor&& x) { return is_spare(x) ? in_place("tanh", x, SLOT(tanh)) : tanh(x); }

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  if (traces()) return traced("leaky_relu", x, negative_slope);
  return recorded_unary<Reads::input>("leaky_relu", x, SLOT(leaky_relu), SLOT(leaky_relu_backward), negative_slope);
}

Tensor sigmoid(const Tensor& x) {
  if (traces()) return traced("sigmoid", x);
  return recorded_unary<Reads::output>("sigmoid", x, SLOT(sigmoid), SLOT(sigmoid_backward));
}

Tensor tanh(const Tensor& x) {
  if (traces()) return traced("tanh", x);
  return recorded_unary<Reads::output>("tanh", x, SLOT(tanh), SLOT(tanh_backward));
}

Tensor softplus(const Tensor& x) {
  if (traces()) return traced("softplus", x);
  return recorded_unary<Reads::input>("softplus", x, SLOT(softplus), SLOT(softplus_backward));
}

Tensor gelu(const Tensor& x) {
  if (traces()) return traced("gelu", x);
  return recorded_unary<Reads::input>("gelu", x, SLOT(gelu), SLOT(gelu_backward));
}

Tensor silu(const Tensor& x) {
  if (traces()) return traced("silu", x);
  return recorded_unary<Reads::input>("silu", x, SLOT(silu), SLOT(silu_backward));
}

Tensor hardswish(const Tensor& x) {
  if (traces()) return traced("hardswish", x);
  return recorded_unary<Reads::input>("hardswish", x, SLOT(hardswish), SLOT(hardswish_backward));
}

Tensor softmax(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  if (traces()) return traced("softmax", x, dim, dtype);
  check_defined("softmax", "the input", x);
  if (dtype) return softmax(x.to(*dtype), dim);
  return recorded_along("softmax", x, dim, SLOT(softmax), SLOT(softmax_backward));
}

Tensor log_softmax(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  if (traces()) return traced("log_softmax", x, dim, dtype);
  check_defined("log_softmax", "the input", x);
  if (dtype) return log_softmax(x.to(*dtype), dim);
  return recorded_along("log_softmax", x, dim, SLOT(log_softmax), SLOT(log_softmax_backward));
}

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return relu(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::tanh:
      return tanh(x);
    case Activation::relu6:
      return relu6(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::silu:
      return silu(x);
    case Activation::hardswish:
      return hardswish(x);
    default:
      check_defined("activate", "the input", x);
      return x;
  }
}

#undef SLOT

}  // namespace tern::operators
