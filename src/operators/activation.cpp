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

}  // namespace

#define SLOT(name) [](const auto& table) -> decltype((table.activation.name)) { return table.activation.name; }

Tensor relu(const Tensor& x) {
  if (traces()) [[unlikely]]
    return traced("relu", x);
  Tensor out = unary("relu", x, SLOT(relu));
  if (recording(x))
    record("relu", out, {x}, [out = Saved(out)](const Tensor& grad) {
      return Gradients{unary_backward("relu", grad, out.get(), SLOT(relu_backward))};
    });
  return out;
}

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  if (traces()) [[unlikely]]
    return traced("leaky_relu", x, negative_slope);
  Tensor out = unary("leaky_relu", x, SLOT(leaky_relu), negative_slope);
  if (recording(x))
    record("leaky_relu", out, {x}, [x = Saved(x), negative_slope](const Tensor& grad) {
      return Gradients{unary_backward("leaky_relu", grad, x.get(), SLOT(leaky_relu_backward), negative_slope)};
    });
  return out;
}

Tensor sigmoid(const Tensor& x) {
  if (traces()) [[unlikely]]
    return traced("sigmoid", x);
  Tensor out = unary("sigmoid", x, SLOT(sigmoid));
  if (recording(x))
    record("sigmoid", out, {x}, [out = Saved(out)](const Tensor& grad) {
      return Gradients{unary_backward("sigmoid", grad, out.get(), SLOT(sigmoid_backward))};
    });
  return out;
}

Tensor tanh(const Tensor& x) {
  if (traces()) [[unlikely]]
    return traced("tanh", x);
  Tensor out = unary("tanh", x, SLOT(tanh));
  if (recording(x))
    record("tanh", out, {x}, [out = Saved(out)](const Tensor& grad) {
      return Gradients{unary_backward("tanh", grad, out.get(), SLOT(tanh_backward))};
    });
  return out;
}

Tensor softplus(const Tensor& x) {
  if (traces()) [[unlikely]]
    return traced("softplus", x);
  Tensor out = unary("softplus", x, SLOT(softplus));
  if (recording(x))
    record("softplus", out, {x}, [x = Saved(x)](const Tensor& grad) {
      return Gradients{unary_backward("softplus", grad, x.get(), SLOT(softplus_backward))};
    });
  return out;
}

Tensor gelu(const Tensor& x) {
  if (traces()) [[unlikely]]
    return traced("gelu", x);
  Tensor out = unary("gelu", x, SLOT(gelu));
  if (recording(x))
    record("gelu", out, {x}, [x = Saved(x)](const Tensor& grad) {
      return Gradients{unary_backward("gelu", grad, x.get(), SLOT(gelu_backward))};
    });
  return out;
}

Tensor silu(const Tensor& x) {
  if (traces()) [[unlikely]]
    return traced("silu", x);
  Tensor out = unary("silu", x, SLOT(silu));
  if (recording(x))
    record("silu", out, {x}, [x = Saved(x)](const Tensor& grad) {
      return Gradients{unary_backward("silu", grad, x.get(), SLOT(silu_backward))};
    });
  return out;
}

Tensor hardswish(const Tensor& x) {
  if (traces()) [[unlikely]]
    return traced("hardswish", x);
  Tensor out = unary("hardswish", x, SLOT(hardswish));
  if (recording(x))
    record("hardswish", out, {x}, [x = Saved(x)](const Tensor& grad) {
      return Gradients{unary_backward("hardswish", grad, x.get(), SLOT(hardswish_backward))};
    });
  return out;
}

Tensor softmax(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  if (traces()) [[unlikely]]
    return traced("softmax", x, dim, dtype);
  check_defined("softmax", "the input", x);
  if (dtype) return softmax(x.to(*dtype), dim);
  const int place = dim_of("softmax", dim, x.rank());
  Tensor out = along("softmax", x, place, SLOT(softmax));
  if (recording(x))
    record("softmax", out, {x}, [out = Saved(out), place](const Tensor& grad) {
      return Gradients{along_backward("softmax", grad, out.get(), place, SLOT(softmax_backward))};
    });
  return out;
}

Tensor log_softmax(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  if (traces()) [[unlikely]]
    return traced("log_softmax", x, dim, dtype);
  check_defined("log_softmax", "the input", x);
  if (dtype) return log_softmax(x.to(*dtype), dim);
  const int place = dim_of("log_softmax", dim, x.rank());
  Tensor out = along("log_softmax", x, place, SLOT(log_softmax));
  if (recording(x))
    record("log_softmax", out, {x}, [out = Saved(out), place](const Tensor& grad) {
      return Gradients{along_backward("log_softmax", grad, out.get(), place, SLOT(log_softmax_backward))};
    });
  return out;
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
