#pragma once

#include <optional>

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

// Functions of each element, composed of other operators in every floating dtype, with torch's names. Outside the
// domain of a function its value is NaN.

Tensor log2(const Tensor& x);   ///< The logarithm to the base 2.
Tensor log10(const Tensor& x);  ///< The logarithm to the base 10.
Tensor exp2(const Tensor& x);   ///< 2^x.

Tensor asin(const Tensor& x);  ///< The arcus sine, in [-pi / 2, pi / 2].
Tensor acos(const Tensor& x);  ///< The arcus cosine, in [0, pi].
Tensor atan(const Tensor& x);  ///< The arcus tangent, in [-pi / 2, pi / 2].
/// The angle of the point (x, y), in [-pi, pi], broadcast; the sign of a zero counts, as in std::atan2. Its gradient at
/// (0, 0) is NaN.
Tensor atan2(const Tensor& y, const Tensor& x);

Tensor sinh(const Tensor& x);   ///< (e^x - e^-x) / 2, exact near 0 too.
Tensor cosh(const Tensor& x);   ///< (e^x + e^-x) / 2.
Tensor asinh(const Tensor& x);  ///< The inverse of sinh.
Tensor acosh(const Tensor& x);  ///< The inverse of cosh, at least 0.
Tensor atanh(const Tensor& x);  ///< The inverse of tanh.

/// a + weight * (b - a), all broadcast; from the side of b where the weight is 1/2 or more, so that 1 gives b.
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// x with `nan` in place of NaN, and these in place of the infinities: the largest number of the dtype, and its
/// negative, when absent. No gradient passes where something was replaced. Integers are copied.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> positive_infinity = {},
                  std::optional<double> negative_infinity = {});
/// min(max(x, low), high), all broadcast, so `high` where low > high; a bound that is undefined is none, a NaN in one
/// is NaN. The gradient goes to what was taken, to x at the bounds. Integers too.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);

}  // namespace tern::operators
