#pragma once
// What the cases of elements between others share.

#include <cmath>

#include "support/catalogue.hpp"

namespace tern::testing {

/// Keys' cubic convolution at the distance t.
inline double cubic_weight(double t, double a) {
  t = std::abs(t);
  if (t <= 1) return (a + 2) * t * t * t - (a + 3) * t * t + 1;
  return t < 2 ? a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a : 0;
}

Operator resize_operator();

}  // namespace tern::testing
