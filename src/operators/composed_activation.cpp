// Activations without a slot of their own.

#include <cmath>
#include <limits>
#include <numbers>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "operators/unary.hpp"
#include "tern/operators/activation.hpp"

namespace tern::operators {

namespace {

// x > 0 ? x : below(x). Elements that are not selected are computed at 0, so no infinity multiplies a gradient.
template <class Below>
Tensor linear_above_zero(const Tensor& x, Below below) {
  const Tensor above = greater(x, 0);
  return where(above, x, below(replace(x, above, 0)));
}

}  // namespace

Tensor elu(const Tensor& x, double alpha) {
  if (traces()) return traced("elu", x, alpha);
  return compose("elu", x, [&](const Tensor& wide) {
    return linear_above_zero(wide, [&](const Tensor& below) { return mul(expm1(below), alpha); });
  });
}

Tensor selu(const Tensor& x) {
  if (traces()) return traced("selu", x);
  // The fixed point of Klambauer and others (2017), at which mean 0 and variance 1 are preserved.
  constexpr double alpha = 1.6732632423543772, scale = 1.0507009873554805;
  return compose("selu", x, [&](const Tensor& wide) { return mul(elu(wide, alpha), scale); });
}

Tensor celu(const Tensor& x, double alpha) {
  if (traces()) return traced("celu", x, alpha);
  expects<NumericError>(alpha > 0 && alpha < infinity, "celu: alpha ", alpha, ", expected a number above 0");
  return compose("celu", x, [&](const Tensor& wide) {
    return linear_above_zero(wide, [&](const Tensor& below) { return mul(expm1(mul(below, 1 / alpha)), alpha); });
  });
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  if (traces()) return traced("prelu", x, weight);
  check_dtypes("prelu", x, weight);
  const std::int64_t channels = x.rank() >= 2 ? x.shape()[1] : 1;
  expects<ShapeError>(weight.rank() == 1 && (weight.shape()[0] == 1 || weight.shape()[0] == channels), "prelu: weight ",
                      weight.shape(), " beside an input of ", x.shape(), ", expected [1] or [", channels, "]");
  return compose("prelu", x, weight, [](const Tensor& wide, const Tensor& slope) {
    Shape shape = Shape::filled(wide.rank(), 1);
    if (wide.rank() >= 2) shape[1] = slope.numel();
    return linear_above_zero(wide, [&](const Tensor& below) { return mul(below, slope.reshape(shape)); });
  });
}

#define SLOT(name) [](const auto& table) -> decltype((table.arithmetic.name)) { return table.arithmetic.name; }

namespace {

// The gradient passes strictly between 0 and 6, so the bounds are their neighbours: clamp's gradient also passes at its
// bounds.
template <class T>
Tensor relu6_backward(const Tensor& grad, const Tensor& x) {
  return unary_backward("relu6", grad, x, SLOT(clamp_backward), std::numeric_limits<T>::denorm_min(),
                        std::nextafter(T(6), T(0)));
}

}  // namespace

Tensor relu6(const Tensor& x) {
  if (traces()) return traced("relu6", x);
  check_floating("relu6", "the input", x);
  Tensor out = unary("relu6", x, SLOT(clamp), 0.0, 6.0);
  if (recording(x))
    record("relu6", out, {x}, [x = Saved(x)](const Tensor& grad) {
      return Gradients{grad.dtype() == DType::float64 ? relu6_backward<double>(grad, x.get())
                                                      : relu6_backward<float>(grad, x.get())};
    });
  return out;
}

#undef SLOT

Tensor hardsigmoid(const Tensor& x) {
  if (traces()) return traced("hardsigmoid", x);
  return compose("hardsigmoid", x, [](const Tensor& wide) { return div(relu6(add(wide, 3)), 6); });
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  expects<NumericError>(beta != 0 && !std::isnan(beta), "softplus: beta ", beta, ", expected another number than 0");
  return compose("softplus", x, [&](const Tensor& wide) {
    const Tensor steep = mul(wide, beta), linear = greater(steep, threshold);
    return where(linear, wide, mul(softplus(replace(steep, linear, 0)), 1 / beta));
  });
}

Tensor mish(const Tensor& x) {
  if (traces()) return traced("mish", x);
  return compose("mish", x, [](const Tensor& wide) { return mul(wide, tanh(softplus(wide))); });
}

Tensor gelu_tanh(const Tensor& x) {
  if (traces()) return traced("gelu_tanh", x);
  return compose("gelu_tanh", x, [](const Tensor& wide) {
    // (1 + tanh(u)) / 2 = sigmoid(2 u), which keeps its digits where x is far below 0. Beyond 25 the sigmoid is 0 or 1
    // even in float64, and the cube stays in range.
    const Tensor near = clamp(wide, -25, 25);
    const Tensor cubic = add(mul(mul(near, near), 0.044715), 1);
    return mul(wide, sigmoid(mul(mul(near, cubic), 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi)));
  });
}

Tensor logsigmoid(const Tensor& x) {
  if (traces()) return traced("logsigmoid", x);
  return compose("logsigmoid", x, [](const Tensor& wide) { return neg(softplus(neg(wide))); });
}

}  // namespace tern::operators
