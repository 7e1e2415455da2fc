#pragma once

#include "tern/tensor/tensor.hpp"

/// The public operators. They run in the mode of the scope (modes/device.hpp), on float32 or float64 tensors of one
/// dtype unless said otherwise, take strided inputs, return new contiguous tensors and record their gradient. Bad
/// shapes throw ShapeError, bad dtypes DTypeError.
namespace tern::operators {

// Elementwise with broadcasting (NumPy's rules): sizes are equal or 1, aligned at the last dimension.
Tensor add(const Tensor& a, const Tensor& b);
/// The sum of tensors of one shape, from left to right, in fewer passes than additions one by one.
Tensor add_all(const std::vector<Tensor>& tensors);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
/// NaN if either is NaN. Equal inputs share the gradient half and half.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

Tensor add(const Tensor& a, double b);
Tensor sub(const Tensor& a, double b);
Tensor mul(const Tensor& a, double b);
Tensor div(const Tensor& a, double b);
Tensor sub(double a, const Tensor& b);
Tensor div(double a, const Tensor& b);

// Comparisons: a bool tensor, no gradient.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);

/// condition ? a : b, all three broadcast; `condition` is bool.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

Tensor neg(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
/// The derivative at 0 is 0.
Tensor abs(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
/// min(max(x, low), high), so `high` everywhere when low > high; the gradient passes where low <= x <= high. A bound
/// that is NaN is a NumericError.
Tensor clamp(const Tensor& x, double low, double high);

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
}  // namespace tern
