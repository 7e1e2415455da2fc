// Arithmetic and comparisons without a slot of their own.

#include <cmath>
#include <limits>

#include "operators/composed.hpp"
#include "tern/operators/reduction.hpp"

namespace tern::operators {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// What a comparison reads: no gradient, and a dtype that every mode compares in.
Tensor compared(const char* op, const Tensor& x) {
  check_floating(op, "the input", x);
  return x.detach().to(scalar_of(x.dtype()));
}

Tensor compare(const char* op, const Tensor& a, double b, Tensor (*comparison)(const Tensor&, const Tensor&)) {
  const Tensor wide = compared(op, a);
  return comparison(wide, number_like(wide, b));
}

}  // namespace

Tensor equal(const Tensor& a, double b) { return compare("equal", a, b, equal); }
Tensor not_equal(const Tensor& a, double b) { return compare("not_equal", a, b, not_equal); }
Tensor less(const Tensor& a, double b) { return compare("less", a, b, less); }
Tensor less_equal(const Tensor& a, double b) { return compare("less_equal", a, b, less_equal); }
Tensor greater(const Tensor& a, double b) { return compare("greater", a, b, greater); }
Tensor greater_equal(const Tensor& a, double b) { return compare("greater_equal", a, b, greater_equal); }

Tensor isnan(const Tensor& x) {
  const Tensor wide = compared("isnan", x);
  return not_equal(wide, wide);
}
Tensor isinf(const Tensor& x) { return equal(abs(compared("isinf", x)), infinity); }
Tensor isfinite(const Tensor& x) { return less(abs(compared("isfinite", x)), infinity); }

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  expects<NumericError>(rtol >= 0 && atol >= 0, "isclose: rtol ", rtol, " and atol ", atol, ", expected at least 0");
  check_dtypes("isclose", a, b);
  broadcast("isclose", a.shape(), b.shape());
  const Tensor x = compared("isclose", a), y = compared("isclose", b);
  // Numbers take the place of bools, which have no logic. An infinite difference is above every bound.
  const double largest = x.dtype() == DType::float64 ? std::numeric_limits<double>::max()
                                                     : static_cast<double>(std::numeric_limits<float>::max());
  const Tensor bound = clamp(add(mul(abs(y), rtol), atol), 0, largest);
  const Tensor yes = number_like(x, 1), no = number_like(x, 0);
  Tensor close = where(equal(x, y), yes, where(less_equal(abs(sub(x, y)), bound), yes, no));
  if (equal_nan) close = where(isnan(x), where(isnan(y), yes, no), close);
  return not_equal(close, no);
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  return all(isclose(a, b, rtol, atol, equal_nan)).item<bool>();
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  check_defined("masked_fill", "the mask", mask);
  expects<DTypeError>(mask.dtype() == DType::boolean, "masked_fill: the mask is ", mask.dtype(), ", expected bool");
  return compose("masked_fill", x, [&](const Tensor& wide) {
    broadcast("masked_fill", x.shape(), mask.shape());
    return replace(wide, mask, value);
  });
}

Tensor maximum(const Tensor& a, double b) {
  return compose("maximum", a, [b](const Tensor& wide) { return maximum(wide, number_like(wide, b)); });
}

Tensor minimum(const Tensor& a, double b) {
  return compose("minimum", a, [b](const Tensor& wide) { return minimum(wide, number_like(wide, b)); });
}

Tensor pow(double base, const Tensor& x) {
  expects<NumericError>(base > 0, "pow: base ", base, ", expected above 0; pow(x, exponent) takes any x");
  return compose("pow", x, [base](const Tensor& wide) { return exp(mul(wide, std::log(base))); });
}

Tensor square(const Tensor& x) {
  return compose("square", x, [](const Tensor& wide) { return mul(wide, wide); });
}

Tensor reciprocal(const Tensor& x) {
  return compose("reciprocal", x, [](const Tensor& wide) { return div(1, wide); });
}

Tensor rsqrt(const Tensor& x) {
  return compose("rsqrt", x, [](const Tensor& wide) { return div(1, sqrt(wide)); });
}

Tensor sign(const Tensor& x) {
  check_floating("sign", "the input", x);
  const Tensor wide = compared("sign", x), zero = number_like(wide, 0);
  const Tensor below = where(less(wide, zero), number_like(wide, -1), zero);
  Tensor out = replace(below, greater(wide, zero), 1).to(x.dtype());
  if (recording(x))
    record("sign", out, {x}, [](const Tensor& grad) { return Gradients{number_like(grad, 0).expand(grad.shape())}; });
  return out;
}

}  // namespace tern::operators
