#pragma once

#include "tern/tensor/tensor.hpp"

/// The public operators. They run in the mode of the scope (modes/device.hpp), on tensors of one floating dtype unless
/// stated otherwise. They take strided inputs, return new contiguous tensors and record their gradient. Elementwise
/// operators preserve the channels-last order of images. Bad shapes throw ShapeError, bad dtypes DTypeError. "Integers"
/// means int32, int64, uint8 and, unless stated otherwise, bool; they wrap around on overflow and have no gradient.
namespace tern::operators {

// Elementwise with broadcasting (NumPy's rules): sizes are equal or 1, aligned at the last dimension. Integers too. For
// bool, `add` is "or" and `mul` is "and"; the others except maximum and minimum throw DTypeError.
Tensor add(const Tensor& a, const Tensor& b);  ///< a + b, broadcast.
/// The sum of tensors of one shape, from left to right, in fewer passes than single additions.
Tensor add_all(const std::vector<Tensor>& tensors);
Tensor sub(const Tensor& a, const Tensor& b);  ///< a - b, broadcast.
Tensor mul(const Tensor& a, const Tensor& b);  ///< a * b, broadcast.
/// a * b + c, all broadcast, in one pass: x + scale * y is mul_add(scale, y, x). For integers the two operators.
Tensor mul_add(const Tensor& a, const Tensor& b, const Tensor& c);
/// For integers, the quotient rounded toward 0, as in C++. An integer divisor of 0 is a NumericError (on cuda: at the
/// next wait); the same holds for fmod and remainder.
Tensor div(const Tensor& a, const Tensor& b);
/// NaN if either is NaN. Equal inputs get half of the gradient each.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);  ///< NaN if either is NaN.

/// a ^ b, with std::pow's special cases. Where a is 0 and b is not negative, b gets no gradient.
Tensor pow(const Tensor& a, const Tensor& b);
/// The exact remainder of a division: fmod has the sign of a, remainder that of b (Python's %). Integers except bool
/// too.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);  ///< Python's %.
/// The largest whole number not above a / b; equal to (a - remainder(a, b)) / b. Integers except bool too; no gradient.
Tensor floor_divide(const Tensor& a, const Tensor& b);

// With a number. Integer tensors take whole numbers within their range; another number is a DTypeError.
Tensor add(const Tensor& a, double b);
Tensor sub(const Tensor& a, double b);
Tensor mul(const Tensor& a, double b);
Tensor div(const Tensor& a, double b);
Tensor sub(double a, const Tensor& b);
Tensor div(double a, const Tensor& b);
inline Tensor add(double a, const Tensor& b) { return add(b, a); }
inline Tensor mul(double a, const Tensor& b) { return mul(b, a); }
Tensor fmod(const Tensor& a, double b);
Tensor remainder(const Tensor& a, double b);
Tensor floor_divide(const Tensor& a, double b);

// Bitwise, for integers; logical for bool.
Tensor bitwise_and(const Tensor& a, const Tensor& b);  ///< a & b.
Tensor bitwise_or(const Tensor& a, const Tensor& b);   ///< a | b.
Tensor bitwise_xor(const Tensor& a, const Tensor& b);  ///< a ^ b.
Tensor bitwise_not(const Tensor& x);                   ///< ~x; of bool !x.
// For any dtype; elements other than 0 are true. The result is bool, with no gradient.
Tensor logical_and(const Tensor& a, const Tensor& b);  ///< Both are nonzero: bool.
Tensor logical_or(const Tensor& a, const Tensor& b);   ///< At least one is nonzero: bool.
Tensor logical_xor(const Tensor& a, const Tensor& b);  ///< Exactly one is nonzero: bool.
Tensor logical_not(const Tensor& x);                   ///< It is zero: bool.

// Comparisons, integers too. The result is bool, with no gradient.
Tensor equal(const Tensor& a, const Tensor& b);          ///< a == b: bool, broadcast.
Tensor not_equal(const Tensor& a, const Tensor& b);      ///< a != b: bool, broadcast.
Tensor less(const Tensor& a, const Tensor& b);           ///< a < b: bool, broadcast.
Tensor less_equal(const Tensor& a, const Tensor& b);     ///< a <= b: bool, broadcast.
Tensor greater(const Tensor& a, const Tensor& b);        ///< a > b: bool, broadcast.
Tensor greater_equal(const Tensor& a, const Tensor& b);  ///< a >= b: bool, broadcast.
// With a number, which is rounded to a floating dtype. Integer tensors are compared with its exact value, also if it is
// a fraction, NaN or infinite.
Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);
Tensor isnan(const Tensor& x);  ///< bool.
Tensor isinf(const Tensor& x);  ///< Either sign: bool.
/// Neither NaN nor infinite.
Tensor isfinite(const Tensor& x);
/// a == b, or finite |a - b| <= atol + rtol |b|; with `equal_nan` also where both are NaN. Throws NumericError for a
/// negative tolerance.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
/// Whether `isclose` holds for all elements; waits for the device.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);

/// condition ? a : b, all three broadcast; `condition` is bool. Integers too.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// The number is rounded to the tensor's floating dtype; integer tensors take whole numbers within their range.
Tensor where(const Tensor& condition, const Tensor& a, double b);
Tensor where(const Tensor& condition, double a, const Tensor& b);
/// mask ? value : x, both broadcast; `mask` is bool.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

/// Integers except bool too.
Tensor neg(const Tensor& x);
Tensor exp(const Tensor& x);   ///< e^x.
Tensor log(const Tensor& x);   ///< The natural logarithm; NaN below 0.
Tensor sqrt(const Tensor& x);  ///< NaN below 0.
/// The derivative at 0 is 0. Integers except bool too.
Tensor abs(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
Tensor sin(const Tensor& x);  ///< x in radians.
Tensor cos(const Tensor& x);  ///< x in radians.
/// 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
Tensor erf(const Tensor& x);
// To whole numbers, with -0 where that is the nearest from below; the derivative is 0.
Tensor floor(const Tensor& x);  ///< The largest whole number not above x.
Tensor ceil(const Tensor& x);   ///< The smallest whole number not below x.
/// Halves round to even.
Tensor round(const Tensor& x);
/// min(max(x, low), high), so `high` everywhere if low > high. The gradient passes where low <= x <= high, bounds
/// included (torch 2.15 excludes them). Throws NumericError if a bound is NaN.
Tensor clamp(const Tensor& x, double low, double high);

// Composed of other operators; for every floating dtype.
/// With a number; integers too.
Tensor maximum(const Tensor& a, double b);
Tensor minimum(const Tensor& a, double b);
inline Tensor maximum(double a, const Tensor& b) { return maximum(b, a); }
inline Tensor minimum(double a, const Tensor& b) { return minimum(b, a); }
/// base ^ x as exp(x log(base)), off by |x log(base)| units in the last place. Throws NumericError unless base > 0.
Tensor pow(double base, const Tensor& x);
/// Rounds toward 0; the derivative is 0.
Tensor trunc(const Tensor& x);
/// sin(x) / cos(x).
Tensor tan(const Tensor& x);
/// log(1 + x), accurate near 0.
Tensor log1p(const Tensor& x);
/// exp(x) - 1, accurate near 0.
Tensor expm1(const Tensor& x);
/// x * x.
Tensor square(const Tensor& x);
/// 1 / x.
Tensor reciprocal(const Tensor& x);
/// 1 / sqrt(x).
Tensor rsqrt(const Tensor& x);
/// -1, 0 or 1; 0 for NaN, as in torch. The derivative is 0. Integers except bool too.
Tensor sign(const Tensor& x);

}  // namespace tern::operators

namespace tern {
inline Tensor operator+(const Tensor& a, const Tensor& b) { return operators::add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return operators::sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return operators::mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return operators::div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return operators::add(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return operators::sub(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return operators::mul(a, b); }
inline Tensor operator/(const Tensor& a, double b) { return operators::div(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return operators::add(b, a); }
inline Tensor operator-(double a, const Tensor& b) { return operators::sub(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return operators::mul(b, a); }
inline Tensor operator/(double a, const Tensor& b) { return operators::div(a, b); }
inline Tensor operator-(const Tensor& x) { return operators::neg(x); }

// Elementwise comparisons. The result does not convert to one bool: use all() or any().
inline Tensor operator==(const Tensor& a, const Tensor& b) { return operators::equal(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return operators::not_equal(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return operators::less(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return operators::less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return operators::greater(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return operators::greater_equal(a, b); }
inline Tensor operator==(const Tensor& a, double b) { return operators::equal(a, b); }
inline Tensor operator!=(const Tensor& a, double b) { return operators::not_equal(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return operators::less(a, b); }
inline Tensor operator<=(const Tensor& a, double b) { return operators::less_equal(a, b); }
inline Tensor operator>(const Tensor& a, double b) { return operators::greater(a, b); }
inline Tensor operator>=(const Tensor& a, double b) { return operators::greater_equal(a, b); }
inline Tensor operator<(double a, const Tensor& b) { return operators::greater(b, a); }
inline Tensor operator<=(double a, const Tensor& b) { return operators::greater_equal(b, a); }
inline Tensor operator>(double a, const Tensor& b) { return operators::less(b, a); }
inline Tensor operator>=(double a, const Tensor& b) { return operators::less_equal(b, a); }

// x += y writes x + y into x's elements, as copy_ does; other handles and views of x see it. While autograd records, no
// element may change: x becomes the handle of a new tensor. A leaf that requires a gradient throws AutogradError.
Tensor& operator+=(Tensor& x, const Tensor& y);
Tensor& operator-=(Tensor& x, const Tensor& y);
Tensor& operator*=(Tensor& x, const Tensor& y);
Tensor& operator/=(Tensor& x, const Tensor& y);
Tensor& operator+=(Tensor& x, double y);
Tensor& operator-=(Tensor& x, double y);
Tensor& operator*=(Tensor& x, double y);
Tensor& operator/=(Tensor& x, double y);

// The same for a temporary view: x.slice(0, 1, 3) += y writes into x. Throws AutogradError while autograd records.
Tensor operator+=(Tensor&& x, const Tensor& y);
Tensor operator-=(Tensor&& x, const Tensor& y);
Tensor operator*=(Tensor&& x, const Tensor& y);
Tensor operator/=(Tensor&& x, const Tensor& y);
Tensor operator+=(Tensor&& x, double y);
Tensor operator-=(Tensor&& x, double y);
Tensor operator*=(Tensor&& x, double y);
Tensor operator/=(Tensor&& x, double y);
}  // namespace tern
