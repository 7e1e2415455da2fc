// Arithmetic on one tensor: with a number, and elementwise functions.

#include <cmath>
#include <numbers>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "operators/unary.hpp"
#include "tern/operators/arithmetic.hpp"

namespace tern::operators {

#define SLOT(name) [](const auto& table) -> decltype((table.arithmetic.name)) { return table.arithmetic.name; }

namespace {

// scale * x + shift, for floating dtypes.
Tensor affine(const char* op, const Tensor& x, double scale, double shift) {
  Tensor out = unary(op, x, SLOT(affine), scale, shift);
  if (recording(x))
    record(op, out, {x}, [op, scale](const Tensor& grad) { return Gradients{affine(op, grad, scale, -0.0)}; });
  return out;
}

bool holds_integers(const Tensor& x) { return x.defined() && !is_floating(x.dtype()); }

}  // namespace

Tensor add(const Tensor& a, double b) {
  if (traces()) return traced("add_number", a, b);
  return holds_integers(a) ? add(a, number_beside("add", a, b)) : affine("add", a, 1, b);
}
Tensor sub(const Tensor& a, double b) {
  if (traces()) return traced("sub_number", a, b);
  return holds_integers(a) ? sub(a, number_beside("sub", a, b)) : affine("sub", a, 1, -b);
}
Tensor mul(const Tensor& a, double b) {
  if (traces()) return traced("mul_number", a, b);
  // Adding -0 leaves every number unchanged, including -0.
  return holds_integers(a) ? mul(a, number_beside("mul", a, b)) : affine("mul", a, b, -0.0);
}
// Multiplying by the reciprocal would round differently from a division.
Tensor div(const Tensor& a, double b) {
  if (traces()) return traced("div_number", a, b);
  return in_scalars("div", a, [b](const Tensor& x) { return div(x, number_beside("div", x, b)); });
}
Tensor sub(double a, const Tensor& b) {
  if (traces()) return traced("number_sub", a, b);
  return holds_integers(b) ? sub(number_beside("sub", b, a), b) : affine("sub", b, -1, a);
}
Tensor div(double a, const Tensor& b) {
  if (traces()) return traced("number_div", a, b);
  return in_scalars("div", b, [a](const Tensor& x) { return div(number_beside("div", x, a), x); });
}

Tensor neg(const Tensor& x) {
  if (traces()) return traced("neg", x);
  check_not_bool("neg", x);
  Tensor out = unary("neg", x, SLOT(neg));
  if (recording(x)) record("neg", out, {x}, [](const Tensor& grad) { return Gradients{neg(grad)}; });
  return out;
}

Tensor exp(const Tensor& x) {
  if (traces()) return traced("exp", x);
  Tensor out = unary("exp", x, SLOT(exp));
  if (recording(x))
    record("exp", out, {x}, [out = Saved(out)](const Tensor& grad) { return Gradients{mul(grad, out.get())}; });
  return out;
}

Tensor log(const Tensor& x) {
  if (traces()) return traced("log", x);
  Tensor out = unary("log", x, SLOT(log));
  if (recording(x))
    record("log", out, {x}, [x = Saved(x)](const Tensor& grad) { return Gradients{div(grad, x.get())}; });
  return out;
}

Tensor sqrt(const Tensor& x) {
  if (traces()) return traced("sqrt", x);
  return recorded_unary<Reads::output>("sqrt", x, SLOT(sqrt), SLOT(sqrt_backward));
}

Tensor abs(const Tensor& x) {
  if (traces()) return traced("abs", x);
  check_not_bool("abs", x);
  return recorded_unary<Reads::input>("abs", x, SLOT(abs), SLOT(abs_backward));
}

namespace {

// A function with derivative slope(x), in float32 if x has 16 bits, so that no intermediate is rounded.
template <class Slot, class Slope>
Tensor function(const char* op, const Tensor& x, Slot slot, Slope slope) {
  return in_scalars(op, x, [&](const Tensor& wide) {
    Tensor out = unary(op, wide, slot);
    if (recording(wide))
      record(op, out, {wide},
             [x = Saved(wide), slope](const Tensor& grad) { return Gradients{mul(grad, slope(x.get()))}; });
    return out;
  });
}

template <class Slot>
Tensor whole_number(const char* op, const Tensor& x, Slot slot) {
  Tensor out = unary(op, x, slot);
  if (recording(x))
    record(op, out, {x}, [](const Tensor& grad) { return Gradients{number_like(grad, 0).expand(grad.shape())}; });
  return out;
}

}  // namespace

Tensor sin(const Tensor& x) {
  if (traces()) return traced("sin", x);
  return function("sin", x, SLOT(sin), cos);
}
Tensor cos(const Tensor& x) {
  if (traces()) return traced("cos", x);
  return function("cos", x, SLOT(cos), [](const Tensor& at) { return neg(sin(at)); });
}
Tensor erf(const Tensor& x) {
  if (traces()) return traced("erf", x);
  return function("erf", x, SLOT(erf),
                  [](const Tensor& at) { return mul(exp(neg(mul(at, at))), 2 * std::numbers::inv_sqrtpi); });
}

Tensor floor(const Tensor& x) {
  if (traces()) return traced("floor", x);
  return whole_number("floor", x, SLOT(floor));
}
Tensor ceil(const Tensor& x) {
  if (traces()) return traced("ceil", x);
  return whole_number("ceil", x, SLOT(ceil));
}
Tensor round(const Tensor& x) {
  if (traces()) return traced("round", x);
  return whole_number("round", x, SLOT(round));
}

Tensor sign(const Tensor& x) {
  if (traces()) return traced("sign", x);
  check_not_bool("sign", x);
  if (!is_floating(x.dtype())) return unary("sign", x, SLOT(sign));
  const Tensor wide = x.detach().to(scalar_of(x.dtype())), zero = number_like(wide, 0);
  const Tensor below = where(less(wide, zero), number_like(wide, -1), zero);
  Tensor out = replace(below, greater(wide, zero), 1).to(x.dtype());
  if (recording(x))
    record("sign", out, {x}, [](const Tensor& grad) { return Gradients{number_like(grad, 0).expand(grad.shape())}; });
  return out;
}

Tensor bitwise_not(const Tensor& x) {
  if (traces()) return traced("bitwise_not", x);
  return unary("bitwise_not", x, SLOT(bitwise_not));
}

Tensor pow(const Tensor& x, double exponent) {
  if (traces()) return traced("pow_number", x, exponent);
  return recorded_unary<Reads::input>("pow", x, SLOT(pow), SLOT(pow_backward), exponent);
}

Tensor clamp(const Tensor& x, double low, double high) {
  if (traces()) return traced("clamp", x, low, high);
  expects<NumericError>(!std::isnan(low) && !std::isnan(high), "clamp: the bounds ", low, " and ", high);
  return recorded_unary<Reads::input>("clamp", x, SLOT(clamp), SLOT(clamp_backward), low, high);
}

#undef SLOT

}  // namespace tern::operators
