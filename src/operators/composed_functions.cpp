// Functions of one and two numbers without their own slot.

#include <cmath>
#include <limits>
#include <numbers>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tern/operators/functions.hpp"
#include "tern/operators/reduction.hpp"

namespace tern::operators {

namespace {

constexpr double quarter_turn = std::numbers::pi / 2;

// value(x) with its own derivative slope(x): the derivative of its parts would lose digits, or be NaN.
template <class Value, class Slope>
Tensor with_slope(const char* op, const Tensor& x, Value value, Slope slope) {
  return compose(op, x, [&](const Tensor& wide) {
    const Tensor all = wide.detach();
    Tensor out = value(all);
    if (recording(wide))
      record(op, out, {wide},
             [x = Saved(all), slope](const Tensor& grad) { return Gradients{mul(grad, slope(x.get()))}; });
    return out;
  });
}

Tensor with_sign_of(const Tensor& x, const Tensor& magnitude) { return where(less(x, 0), neg(magnitude), magnitude); }

// The arctangent for |t| <= 1.
Tensor near_arctangent(const Tensor& t) {
  // atan(t) = 2 atan(t / (1 + sqrt(1 + t^2))): applied twice, |u| is at most tan(pi / 16) < 0.2.
  Tensor u = t;
  for (int half = 0; half < 2; ++half) u = div(u, add(sqrt(add(mul(u, u), 1)), 1));
  // u - u^3 / 3 + u^5 / 5 - ..., up to terms below the last digit.
  const Tensor square = mul(u, u);
  const auto term = [](int k) { return (k % 2 == 0 ? 1.0 : -1.0) / (2 * k + 1); };
  int k = t.dtype() == DType::float64 ? 12 : 6;
  Tensor tail = number_like(t, term(k));
  while (--k > 0) tail = add(mul(square, tail), term(k));
  return mul(add(u, mul(mul(u, square), tail)), 4);
}

Tensor arctangent(const Tensor& x) {
  const Tensor far = greater(abs(x), 1), near = near_arctangent(where(far, div(1, x), x));
  const Tensor side = with_sign_of(x, number_like(x, quarter_turn).expand(x.shape()));
  return where(far, sub(side, near), near);
}

// Whether the sign bit is set; true for -0.
Tensor is_negative(const Tensor& x) { return logical_or(less(x, 0), less(div(1, x), 0)); }

Tensor angle(const Tensor& y, const Tensor& x) {
  const Tensor height = abs(y), width = abs(x), steep = greater(height, width), same = equal(height, width);
  // Two zeros, or two infinities, also have a direction.
  Tensor ratio = div(where(steep, width, height), where(steep, height, width));
  ratio = where(same, where(equal(height, 0), number_like(y, 0), number_like(y, 1)), ratio);
  const Tensor near = near_arctangent(ratio);
  const Tensor first = where(steep, sub(quarter_turn, near), near);
  const Tensor half = where(is_negative(x), sub(std::numbers::pi, first), first);
  return where(is_negative(y), neg(half), half);
}

Tensor hyperbolic_sine(const Tensor& x) {
  const Tensor size = abs(x), near = less(size, 1);
  const Tensor more = expm1(where(near, size, 0)), small = mul(add(more, div(more, add(more, 1))), 0.5);
  const Tensor root = exp(mul(size, 0.5));  // e^x overflows before the result does
  const Tensor large = sub(mul(mul(root, 0.5), root), div(div(0.5, root), root));
  return with_sign_of(x, where(near, small, large));
}

Tensor hyperbolic_cosine(const Tensor& x) {
  const Tensor root = exp(mul(abs(x), 0.5));
  return add(mul(mul(root, 0.5), root), div(div(0.5, root), root));
}

// From here on sqrt(x^2 +- 1) is x.
double far_from(const Tensor& x) { return x.dtype() == DType::float64 ? 0x1p30 : 0x1p14; }

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return std::numeric_limits<double>::max();
    case DType::float16:
      return 65504;
    case DType::bfloat16:
      return 0x1.FEp127;
    default:
      return static_cast<double>(std::numeric_limits<float>::max());
  }
}

}  // namespace

Tensor log2(const Tensor& x) {
  if (traces()) return traced("log2", x);
  return compose("log2", x, [](const Tensor& wide) { return div(log(wide), std::numbers::ln2); });
}
Tensor log10(const Tensor& x) {
  if (traces()) return traced("log10", x);
  return compose("log10", x, [](const Tensor& wide) { return div(log(wide), std::numbers::ln10); });
}
Tensor exp2(const Tensor& x) {
  if (traces()) return traced("exp2", x);
  return compose("exp2", x, [](const Tensor& wide) { return pow(number_like(wide, 2), wide); });
}

Tensor asin(const Tensor& x) {
  if (traces()) return traced("asin", x);
  const auto cosine = [](const Tensor& sine) { return sqrt(mul(sub(1, sine), add(sine, 1))); };
  return with_slope(
      "asin", x, [cosine](const Tensor& all) { return mul(near_arctangent(div(all, add(cosine(all), 1))), 2); },
      [cosine](const Tensor& at) { return div(1, cosine(at)); });
}
Tensor acos(const Tensor& x) {
  if (traces()) return traced("acos", x);
  return with_slope(
      "acos", x, [](const Tensor& all) { return mul(arctangent(sqrt(div(sub(1, all), add(all, 1)))), 2); },
      [](const Tensor& at) { return div(-1, sqrt(mul(sub(1, at), add(at, 1)))); });
}
Tensor atan(const Tensor& x) {
  if (traces()) return traced("atan", x);
  return with_slope("atan", x, arctangent, [](const Tensor& at) { return div(1, add(mul(at, at), 1)); });
}
Tensor atan2(const Tensor& y, const Tensor& x) {
  if (traces()) return traced("atan2", y, x);
  return compose("atan2", y, x, [](const Tensor& a, const Tensor& b) {
    const Shape shape = broadcast("atan2", a.shape(), b.shape());
    Tensor out = angle(a.detach().expand(shape), b.detach().expand(shape));
    if (recording(a, b))
      record("atan2", out, {a, b}, [y = Saved(a.detach()), x = Saved(b.detach())](const Tensor& grad) {
        // In units of the larger one, whose square could overflow.
        const Tensor larger = maximum(abs(y.get()), abs(x.get()));
        const Tensor sine = div(y.get(), larger), cosine = div(x.get(), larger);
        const Tensor part = div(grad, mul(larger, add(mul(sine, sine), mul(cosine, cosine))));
        return Gradients{sum_to(mul(part, cosine), y.get().shape()), neg(sum_to(mul(part, sine), x.get().shape()))};
      });
    return out;
  });
}

Tensor sinh(const Tensor& x) {
  if (traces()) return traced("sinh", x);
  return with_slope("sinh", x, hyperbolic_sine, hyperbolic_cosine);
}
Tensor cosh(const Tensor& x) {
  if (traces()) return traced("cosh", x);
  return with_slope("cosh", x, hyperbolic_cosine, hyperbolic_sine);
}

Tensor asinh(const Tensor& x) {
  if (traces()) return traced("asinh", x);
  return with_slope(
      "asinh", x,
      [](const Tensor& all) {
        const Tensor size = abs(all), far = greater(size, far_from(all)), near = replace(size, far, 0);
        const Tensor square = mul(near, near);
        const Tensor small = log1p(add(near, div(square, add(sqrt(add(square, 1)), 1))));
        return with_sign_of(all, where(far, add(log(size), std::numbers::ln2), small));
      },
      [](const Tensor& at) { return rsqrt(add(mul(at, at), 1)); });
}
Tensor acosh(const Tensor& x) {
  if (traces()) return traced("acosh", x);
  return with_slope(
      "acosh", x,
      [](const Tensor& all) {
        const Tensor far = greater(all, far_from(all)), above = sub(replace(all, far, 1), 1);
        const Tensor small = log1p(add(above, sqrt(mul(above, add(above, 2)))));
        return replace(where(far, add(log(all), std::numbers::ln2), small), less(all, 1), std::nan(""));
      },
      [](const Tensor& at) { return rsqrt(mul(sub(at, 1), add(at, 1))); });
}
Tensor atanh(const Tensor& x) {
  if (traces()) return traced("atanh", x);
  return with_slope(
      "atanh", x,
      [](const Tensor& all) {
        const Tensor size = abs(all);
        return with_sign_of(all, mul(log1p(div(mul(size, 2), sub(1, size))), 0.5));
      },
      [](const Tensor& at) { return div(1, mul(sub(1, at), add(at, 1))); });
}

namespace {

Tensor interpolated(const Tensor& a, const Tensor& b, const Tensor& weight) {
  const Tensor way = sub(b, a), near = less(abs(weight.detach()), 0.5);
  return where(near, add(a, mul(weight, way)), sub(b, mul(way, sub(1, weight))));
}

}  // namespace

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  if (traces()) return traced("lerp", a, b, weight);
  constexpr const char* op = "lerp";
  check_dtypes(op, a, b);
  check_dtypes(op, a, weight);
  check_floating(op, "the first input", a);
  broadcast(op, broadcast(op, a.shape(), b.shape()), weight.shape());
  const DType wide = scalar_of(a.dtype());
  return interpolated(a.to(wide), b.to(wide), weight.to(wide)).to(a.dtype());
}
Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  return compose("lerp", a, b, [weight](const Tensor& from, const Tensor& to) {
    broadcast("lerp", from.shape(), to.shape());
    const Tensor way = sub(to, from);
    return std::abs(weight) < 0.5 ? add(from, mul(way, weight)) : sub(to, mul(way, 1 - weight));
  });
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> positive_infinity,
                  std::optional<double> negative_infinity) {
  if (traces()) return traced("nan_to_num", x, nan, positive_infinity, negative_infinity);
  check_defined("nan_to_num", "the input", x);
  if (!is_floating(x.dtype())) return x.clone();
  const double largest = largest_of(x.dtype());
  const Tensor wide = x.detach().to(scalar_of(x.dtype()));
  const Tensor numbers = replace(x, not_equal(wide, wide), nan);
  const Tensor below = replace(numbers, equal(wide, infinity), positive_infinity.value_or(largest));
  return replace(below, equal(wide, -infinity), negative_infinity.value_or(-largest));
}

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  if (traces()) return traced("clamp_between", x, low, high);
  constexpr const char* op = "clamp";
  check_not_bool(op, x);
  Tensor out = x;
  // A comparison with NaN is false, so x is selected wherever the bound is not.
  const auto bound = [&](const Tensor& number, Tensor (*beyond)(const Tensor&, const Tensor&)) {
    if (!number.defined()) return;
    check_dtypes(op, x, number);
    broadcast(op, out.shape(), number.shape());
    const Tensor edge = number.detach();
    const Tensor taken =
        logical_and(logical_or(beyond(out.detach(), edge), not_equal(edge, edge)), equal(out.detach(), out.detach()));
    out = where(taken, number, out);
  };
  expects(low.defined() || high.defined(), op, ": neither bound is defined");
  bound(low, less);
  bound(high, greater);
  return out;
}

}  // namespace tern::operators
