// Arithmetic and comparisons without a slot of their own.

#include <cmath>
#include <limits>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tern/operators/activation.hpp"
#include "tern/operators/reduction.hpp"

namespace tern::operators {

namespace {

// The operand of a comparison: no gradient, and a dtype that every mode can compare.
Tensor compared(const char* op, const Tensor& x) {
  check_floating(op, "the input", x);
  return x.detach().to(scalar_of(x.dtype()));
}

Tensor compare(const char* op, const Tensor& a, double b, Tensor (*comparison)(const Tensor&, const Tensor&)) {
  check_defined(op, "the input", a);
  const Tensor wide = a.detach().to(scalar_of(a.dtype()));
  if (is_floating(a.dtype()) || is_a(a.dtype(), b)) return comparison(wide, number_like(wide, b));
  // No integer equals it, and rounding two float64 values keeps their order: 2^63 is above all that round to it.
  return comparison(a.detach().to(DType::float64), scalar(b >= 0x1p63 ? infinity : b));
}

}  // namespace

Tensor equal(const Tensor& a, double b) { return compare("equal", a, b, equal); }
Tensor not_equal(const Tensor& a, double b) { return compare("not_equal", a, b, not_equal); }
Tensor less(const Tensor& a, double b) { return compare("less", a, b, less); }
Tensor less_equal(const Tensor& a, double b) { return compare("less_equal", a, b, less_equal); }
Tensor greater(const Tensor& a, double b) { return compare("greater", a, b, greater); }
Tensor greater_equal(const Tensor& a, double b) { return compare("greater_equal", a, b, greater_equal); }

Tensor isnan(const Tensor& x) {
  if (traces()) return traced("isnan", x);
  const Tensor wide = compared("isnan", x);
  return not_equal(wide, wide);
}
Tensor isinf(const Tensor& x) {
  if (traces()) return traced("isinf", x);
  return equal(abs(compared("isinf", x)), infinity);
}
Tensor isfinite(const Tensor& x) {
  if (traces()) return traced("isfinite", x);
  return less(abs(compared("isfinite", x)), infinity);
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  if (traces()) return traced("isclose", a, b, rtol, atol, equal_nan);
  expects<NumericError>(rtol >= 0 && atol >= 0, "isclose: rtol ", rtol, " and atol ", atol, ", expected at least 0");
  check_dtypes("isclose", a, b);
  broadcast("isclose", a.shape(), b.shape());
  const Tensor x = compared("isclose", a), y = compared("isclose", b);
  // Numbers replace bools, whose logic cannot be subtracted. An infinite difference exceeds every bound.
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
  if (traces()) return traced("masked_fill", x, mask, value);
  check_defined("masked_fill", "the mask", mask);
  expects<DTypeError>(mask.dtype() == DType::boolean, "masked_fill: the mask is ", mask.dtype(), ", expected bool");
  return in_scalars("masked_fill", x, [&](const Tensor& wide) {
    broadcast("masked_fill", x.shape(), mask.shape());
    return where(mask, number_beside("masked_fill", wide, value), wide);
  });
}

Tensor where(const Tensor& condition, const Tensor& a, double b) {
  return where(condition, a, number_beside("where", a, b));
}
Tensor where(const Tensor& condition, double a, const Tensor& b) {
  return where(condition, number_beside("where", b, a), b);
}

namespace {

Tensor logic(const char* op, const Tensor& a, const Tensor& b, Tensor (*bitwise)(const Tensor&, const Tensor&)) {
  const Tensor left = truths(op, a), right = truths(op, b);
  broadcast(op, a.shape(), b.shape());
  return bitwise(left, right);
}

}  // namespace

Tensor logical_and(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("logical_and", a, b);
  return logic("logical_and", a, b, bitwise_and);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("logical_or", a, b);
  return logic("logical_or", a, b, bitwise_or);
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("logical_xor", a, b);
  return logic("logical_xor", a, b, bitwise_xor);
}
Tensor logical_not(const Tensor& x) {
  if (traces()) return traced("logical_not", x);
  return bitwise_not(truths("logical_not", x));
}

Tensor fmod(const Tensor& a, double b) {
  return in_scalars("fmod", a, [b](const Tensor& wide) { return fmod(wide, number_beside("fmod", wide, b)); });
}
Tensor remainder(const Tensor& a, double b) {
  return in_scalars("remainder", a,
                    [b](const Tensor& wide) { return remainder(wide, number_beside("remainder", wide, b)); });
}
Tensor floor_divide(const Tensor& a, double b) {
  return in_scalars("floor_divide", a,
                    [b](const Tensor& wide) { return floor_divide(wide, number_beside("floor_divide", wide, b)); });
}

namespace {

// Where the remainder has another sign than the divisor.
Tensor turns(const Tensor& rest, const Tensor& divisor) {
  const Tensor below = less(rest.detach(), 0), above = greater(rest.detach(), 0);
  return logical_or(logical_and(below, greater(divisor.detach(), 0)), logical_and(above, less(divisor.detach(), 0)));
}

}  // namespace

Tensor remainder(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("remainder", a, b);
  check_not_bool("remainder", a);
  return in_scalars("remainder", a, b, [](const Tensor& x, const Tensor& y) {
    broadcast("remainder", x.shape(), y.shape());
    const Tensor rest = fmod(x, y);
    return where(turns(rest, y), add(rest, y), rest);
  });
}
Tensor floor_divide(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("floor_divide", a, b);
  check_not_bool("floor_divide", a);
  return in_scalars("floor_divide", a.detach(), b.detach(), [](const Tensor& x, const Tensor& y) {
    broadcast("floor_divide", x.shape(), y.shape());
    // The quotient rounded toward 0, exact before rounding if a float can represent it; minus one where the remainder
    // has the wrong sign.
    const Tensor rest = fmod(x, y);
    const Tensor quotient = is_floating(x.dtype()) ? round(div(sub(x, rest), y)) : div(x, y);
    return sub(quotient, turns(rest, y).to(x.dtype()));
  });
}

Tensor trunc(const Tensor& x) {
  if (traces()) return traced("trunc", x);
  return compose("trunc", x, [](const Tensor& wide) { return where(less(wide, 0), ceil(wide), floor(wide)); });
}

Tensor tan(const Tensor& x) {
  if (traces()) return traced("tan", x);
  return compose("tan", x, [](const Tensor& wide) { return div(sin(wide), cos(wide)); });
}

Tensor log1p(const Tensor& x) {
  if (traces()) return traced("log1p", x);
  return compose("log1p", x, [](const Tensor& wide) {
    // Kahan's method: the logarithm of the rounded 1 + x is off by the factor x / ((1 + x) - 1).
    const Tensor all = wide.detach(), sum = add(all, 1), added = sub(sum, 1);
    const Tensor far = replace(mul(log(sum), div(all, added)), equal(sum, infinity), infinity);
    Tensor out = where(equal(added, 0), all, far);
    if (recording(wide))
      record("log1p", out, {wide},
             [x = Saved(all)](const Tensor& grad) { return Gradients{div(grad, add(x.get(), 1))}; });
    return out;
  });
}

Tensor expm1(const Tensor& x) {
  if (traces()) return traced("expm1", x);
  return compose("expm1", x, [](const Tensor& wide) {
    // 2 t / (1 - t) with t = tanh(x / 2): up to here the denominator is between 0.7 and 2, so nothing cancels.
    constexpr double near = 0.5;
    const Tensor all = wide.detach(), t = tanh(mul(clamp(all, -infinity, near), 0.5));
    Tensor out = where(greater(all, near), sub(exp(all), 1), div(mul(t, 2), sub(1, t)));
    if (recording(wide))
      record("expm1", out, {wide}, [x = Saved(all)](const Tensor& grad) { return Gradients{mul(grad, exp(x.get()))}; });
    return out;
  });
}

Tensor maximum(const Tensor& a, double b) {
  return in_scalars("maximum", a, [b](const Tensor& wide) { return maximum(wide, number_beside("maximum", wide, b)); });
}

Tensor minimum(const Tensor& a, double b) {
  return in_scalars("minimum", a, [b](const Tensor& wide) { return minimum(wide, number_beside("minimum", wide, b)); });
}

Tensor pow(double base, const Tensor& x) {
  expects<NumericError>(base > 0, "pow: base ", base, ", expected above 0; pow(x, exponent) takes any x");
  return compose("pow", x, [base](const Tensor& wide) { return exp(mul(wide, std::log(base))); });
}

Tensor square(const Tensor& x) {
  if (traces()) return traced("square", x);
  return compose("square", x, [](const Tensor& wide) { return mul(wide, wide); });
}

Tensor reciprocal(const Tensor& x) {
  if (traces()) return traced("reciprocal", x);
  return compose("reciprocal", x, [](const Tensor& wide) { return div(1, wide); });
}

Tensor rsqrt(const Tensor& x) {
  if (traces()) return traced("rsqrt", x);
  return compose("rsqrt", x, [](const Tensor& wide) { return div(1, sqrt(wide)); });
}

}  // namespace tern::operators

namespace tern {

namespace {

// x = result, in place if nothing is recorded.
Tensor& update(const char* op, Tensor& x, Tensor result) {
  expects<ShapeError>(result.shape() == x.shape(), op, ": ", x.shape(), " cannot hold a result of ", result.shape());
  if (!result.requires_grad() || (x.requires_grad() && x.is_leaf())) return x.copy_(result);
  return x = std::move(result);
}

// The same for a temporary, whose elements belong to a tensor that lives on.
Tensor update_view(const char* op, Tensor& x, const Tensor& result) {
  expects<AutogradError>(!result.requires_grad() || (x.requires_grad() && x.is_leaf()), op,
                         ": the result requires a gradient and would go with the temporary view that it is written to; "
                         "change elements under NoGrad, or join new ones with cat or where");
  return update(op, x, result);
}

}  // namespace

Tensor& operator+=(Tensor& x, const Tensor& y) { return update("+=", x, x + y); }
Tensor& operator-=(Tensor& x, const Tensor& y) { return update("-=", x, x - y); }
Tensor& operator*=(Tensor& x, const Tensor& y) { return update("*=", x, x * y); }
Tensor& operator/=(Tensor& x, const Tensor& y) { return update("/=", x, x / y); }
Tensor& operator+=(Tensor& x, double y) { return update("+=", x, x + y); }
Tensor& operator-=(Tensor& x, double y) { return update("-=", x, x - y); }
Tensor& operator*=(Tensor& x, double y) { return update("*=", x, x * y); }
Tensor& operator/=(Tensor& x, double y) { return update("/=", x, x / y); }
Tensor operator+=(Tensor&& x, const Tensor& y) { return update_view("+=", x, x + y); }
Tensor operator-=(Tensor&& x, const Tensor& y) { return update_view("-=", x, x - y); }
Tensor operator*=(Tensor&& x, const Tensor& y) { return update_view("*=", x, x * y); }
Tensor operator/=(Tensor&& x, const Tensor& y) { return update_view("/=", x, x / y); }
Tensor operator+=(Tensor&& x, double y) { return update_view("+=", x, x + y); }
Tensor operator-=(Tensor&& x, double y) { return update_view("-=", x, x - y); }
Tensor operator*=(Tensor&& x, double y) { return update_view("*=", x, x * y); }
Tensor operator/=(Tensor&& x, double y) { return update_view("/=", x, x / y); }

}  // namespace tern
