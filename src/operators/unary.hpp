#pragma once
// Elementwise operators on one tensor, and their gradients.

#include "operators/layout.hpp"

namespace tern::operators {

/// out = slot(x, parameters...), in x's layout; `slot` selects a slot of the table. The parameters are converted to the
/// compute type.
template <class Slot, class... Parameters>
Tensor unary(const char* op, const Tensor& x, Slot slot, Parameters... parameters) {
  check_defined(op, "the input", x);
  const Tensor whole = dense(x);
  Tensor out = empty_in(layout_of(whole), x.shape(), x.dtype());
  visit(op, x.dtype(), slot, [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.out(out), call.in(whole), out.numel(),
                       static_cast<Scalar<T>>(parameters)...);
  });
  return out;
}

/// grad_in = slot(grad, saved, parameters...); `saved` is the input or the output.
template <class Slot, class... Parameters>
Tensor unary_backward(const char* op, const Tensor& grad, const Tensor& saved, Slot slot, Parameters... parameters) {
  const Tensor whole = dense(saved), whole_grad = in_layout(grad, layout_of(whole));
  Tensor out = empty_in(layout_of(whole), saved.shape(), saved.dtype());
  visit(op, saved.dtype(), [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.out(out), call.in(whole_grad), call.in(whole), out.numel(),
                       static_cast<Scalar<T>>(parameters)...);
  });
  return out;
}

/// What the backward of an operator reads.
enum class Reads : std::uint8_t { input, output };

/// unary, whose gradient is unary_backward of the slot `back`.
template <Reads reads, class Slot, class Back, class... Parameters>
Tensor recorded_unary(const char* op, const Tensor& x, Slot slot, Back back, Parameters... parameters) {
  Tensor out = unary(op, x, slot, parameters...);
  if (recording(x))
    record(op, out, {x}, [op, saved = Saved(reads == Reads::input ? x : out), back, parameters...](const Tensor& grad) {
      return Gradients{unary_backward(op, grad, saved.get(), back, parameters...)};
    });
  return out;
}

}  // namespace tern::operators
