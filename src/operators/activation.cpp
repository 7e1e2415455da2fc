#include "tern/operators/activation.hpp"

#include "operators/traced.hpp"
#include "operators/unary.hpp"

namespace tern::operators {

namespace {

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
