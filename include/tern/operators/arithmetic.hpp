#pragma once

#include "tern/tensor/tensor.hpp"

/// The public operators. They run in the mode of the scope (modes/device.hpp), on tensors of one floating dtype unless
/// said otherwise, take strided inputs, return new contiguous tensors and record their gradient. What works element by
/// element keeps images whose channels lie side by side (channels_last) as they lie. Bad shapes throw ShapeError, bad
/// dtypes DTypeError. "Integers" are int32, int64, uint8 and, where nothing else is said, bool: what
/// leaves their range wraps around, and there is no gradient.
namespace tern::operators {

// Elementwise with broadcasting (NumPy's rules): sizes are equal or 1, aligned at the last dimension. Integers too; of
// bool `add` is "or", `mul` "and", and the others are DTypeErrors but for maximum and minimum.
Tensor add(const Tensor& a, const Tensor& b);  ///< a + b, broadcast.
/// The sum of tensors of one shape, from left to right, in fewer passes than additions one by one.
Tensor add_all(const std::vector<Tensor>& tensors);
Tensor sub(const Tensor& a, const Tensor& b);  ///< a - b, broadcast.
Tensor mul(const Tensor& a, const Tensor& b);  ///< a * b, broadcast.
/// Of integers the quotient towards 0, as C++ divides. A divisor of 0 is a NumericError (on cuda: at the next wait),
/// and so it is for the rest.
Tensor div(const Tensor& a, const Tensor& b);
/// NaN if either is NaN. Equal inputs share the gradient half and half.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);  ///< NaN if either is NaN.

/// a ^ b, with std::pow's special cases. Where a is 0 and b is not negative, b takes no gradient.
Tensor pow(const Tensor& a, const Tensor& b);
/// What division leaves, exact: of fmod with the sign of a, of remainder with that of b (Python's %). Integers but bool
/// too.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);  ///< Python's %.
/// The whole number beneath a / b, with (a - remainder(a, b)) / b exactly that. Integers but bool too; no gradient.
Tensor floor_divide(const Tensor& a, const Tensor& b);

// With a number. Integers take whole numbers of their range; another one is a DTypeError.
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

// Bit by bit, of integers; of bool they are logic.
Tensor bitwise_and(const Tensor& a, const Tensor& b);  ///< a & b.
Tensor bitwise_or(const Tensor& a, const Tensor& b);   ///< a | b.
Tensor bitwise_xor(const Tensor& a, const Tensor& b);  ///< a ^ b.
Tensor bitwise_not(const Tensor& x);                   ///< ~x; of bool !x.
// Of any dtype, where what is not 0 is true: a bool tensor, no gradient.
Tensor logical_and(const Tensor& a, const Tensor& b);  ///< Both are not 0: bool.
Tensor logical_or(const Tensor& a, const Tensor& b);   ///< One is not 0: bool.
Tensor logical_xor(const Tensor& a, const Tensor& b);  ///< Just one is not 0: bool.
Tensor logical_not(const Tensor& x);                   ///< It is 0: bool.

// Comparisons, of integers too: a bool tensor, no gradient.
Tensor equal(const Tensor& a, const Tensor& b);          ///< a == b: bool, broadcast.
Tensor not_equal(const Tensor& a, const Tensor& b);      ///< a != b: bool, broadcast.
Tensor less(const Tensor& a, const Tensor& b);           ///< a < b: bool, broadcast.
Tensor less_equal(const Tensor& a, const Tensor& b);     ///< a <= b: bool, broadcast.
Tensor greater(const Tensor& a, const Tensor& b);        ///< a > b: bool, broadcast.
Tensor greater_equal(const Tensor& a, const Tensor& b);  ///< a >= b: bool, broadcast.
// With a number, which is rounded to a floating dtype; with integers it is compared as it is, be it a fraction, NaN or
// infinite.
Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);
Tensor isnan(const Tensor& x);  ///< bool.
Tensor isinf(const Tensor& x);  ///< Of either sign: bool.
/// Neither NaN nor infinite.
Tensor isfinite(const Tensor& x);
/// a == b, or finite |a - b| <= atol + rtol |b|; with `equal_nan` also where both are NaN. A negative tolerance is a
/// NumericError.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
/// Whether `isclose` holds everywhere; waits for the device.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);

/// condition ? a : b, all three broadcast; `condition` is bool. Integers too.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// The number is rounded to the tensor's floating dtype; integers take whole numbers of their range.
Tensor where(const Tensor& condition, const Tensor& a, double b);
Tensor where(const Tensor& condition, double a, const Tensor& b);
/// mask ? value : x, both broadcast; `mask` is bool.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

/// Integers but bool too.
Tensor neg(const Tensor& x);
Tensor exp(const Tensor& x);   ///< e^x.
Tensor log(const Tensor& x);   ///< The natural logarithm; NaN below 0.
Tensor sqrt(const Tensor& x);  ///< NaN below 0.
/// The derivative at 0 is 0. Integers but bool too.
Tensor abs(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
Tensor sin(const Tensor& x);  ///< x in radians.
Tensor cos(const Tensor& x);  ///< x in radians.
/// 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
Tensor erf(const Tensor& x);
// To whole numbers, -0 where that is the nearest from below; the derivative is 0.
Tensor floor(const Tensor& x);  ///< The next whole number beneath.
Tensor ceil(const Tensor& x);   ///< The next whole number above.
/// Halves go to the even number.
Tensor round(const Tensor& x);
/// min(max(x, low), high), so `high` everywhere when low > high; the gradient passes where low <= x <= high, at the
/// bounds too (torch 2.15: not there). A bound that is NaN is a NumericError.
Tensor clamp(const Tensor& x, double low, double high);

// Composed of the others, in every floating dtype.
/// With a number, of integers too.
Tensor maximum(const Tensor& a, double b);
Tensor minimum(const Tensor& a, double b);
inline Tensor maximum(double a, const Tensor& b) { return maximum(b, a); }
inline Tensor minimum(double a, const Tensor& b) { return minimum(b, a); }
/// base ^ x as exp(x log(base)), off by |x log(base)| units in the last place. A NumericError unless base > 0.
Tensor pow(double base, const Tensor& x);
/// Towards 0; the derivative is 0.
Tensor trunc(const Tensor& x);
/// sin(x) / cos(x).
Tensor tan(const Tensor& x);
/// log(1 + x), exact near 0 too.
Tensor log1p(const Tensor& x);
/// exp(x) - 1, exact near 0 too.
Tensor expm1(const Tensor& x);
/// x * x.
Tensor square(const Tensor& x);
/// 1 / x.
Tensor reciprocal(const Tensor& x);
/// 1 / sqrt(x).
Tensor rsqrt(const Tensor& x);
/// -1, 0 or 1; 0 for NaN, as torch has it. The derivative is 0. Integers but bool too.
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

// Comparisons of each element; there is no conversion of the result to one bool, say all() or any().
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

// x += y writes x + y into x's elements, as copy_ does: other handles and views of x see it. Where autograd records, no
// element may change, and x becomes the handle of a new tensor; a leaf that requires a gradient is an AutogradError.
Tensor& operator+=(Tensor& x, const Tensor& y);
Tensor& operator-=(Tensor& x, const Tensor& y);
Tensor& operator*=(Tensor& x, const Tensor& y);
Tensor& operator/=(Tensor& x, const Tensor& y);
Tensor& operator+=(Tensor& x, double y);
Tensor& operator-=(Tensor& x, double y);
Tensor& operator*=(Tensor& x, double y);
Tensor& operator/=(Tensor& x, double y);

// The same of a view that has no name: x.slice(0, 1, 3) += y writes into x. Where autograd records it is an
// AutogradError.
Tensor operator+=(Tensor&& x, const Tensor& y);
Tensor operator-=(Tensor&& x, const Tensor& y);
Tensor operator*=(Tensor&& x, const Tensor& y);
Tensor operator/=(Tensor&& x, const Tensor& y);
Tensor operator+=(Tensor&& x, double y);
Tensor operator-=(Tensor&& x, double y);
Tensor operator*=(Tensor&& x, double y);
Tensor operator/=(Tensor&& x, double y);
}  // namespace tern
