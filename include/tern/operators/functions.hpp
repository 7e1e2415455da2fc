#pragma once

#include <optional>

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

// Elementwise functions with torch's names, composed of other operators, for every floating dtype. Outside a function's
// domain the value is NaN.

Tensor log2(const Tensor& x);   ///< The logarithm to the base 2.
Tensor log10(const Tensor& x);  ///< The logarithm to the base 10.
Tensor exp2(const Tensor& x);   ///< 2^x.

Tensor asin(const Tensor& x);  ///< The arcus sine, in [-pi / 2, pi / 2].
Tensor acos(const Tensor& x);  ///< The arcus cosine, in [0, pi].
Tensor atan(const Tensor& x);  ///< The arcus tangent, in [-pi / 2, pi / 2].
/// The angle of the point (x, y), in [-pi, pi], broadcast. The sign of a zero counts, as in std::atan2. The gradient at
/// (0, 0) is NaN.
Tensor atan2(const Tensor& y, const Tensor& x);

Tensor sinh(const Tensor& x);   ///< (e^x - e^-x) / 2, accurate near 0.
Tensor cosh(const Tensor& x);   ///< (e^x + e^-x) / 2.
Tensor asinh(const Tensor& x);  ///< The inverse of sinh.
Tensor acosh(const Tensor& x);  ///< The inverse of cosh, at least 0.
Tensor atanh(const Tensor& x);  ///< The inverse of tanh.

/// a + weight * (b - a), all broadcast. For weights of 1/2 or more it is computed from b, so that 1 gives b exactly.
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// Replaces NaN by `nan` and infinities by the two limits; absent limits are the dtype's largest and lowest numbers.
/// Replaced elements get no gradient. Integers are copied.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> positive_infinity = {},
                  std::optional<double> negative_infinity = {});
/// min(max(x, low), high), all broadcast, so `high` where low > high. An undefined bound does not limit; a NaN in a
/// bound gives NaN. The gradient goes to the selected input, at the bounds to x. Integers too.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);

}  // namespace tern::operators
