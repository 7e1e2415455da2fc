#pragma once
// The activations that layers apply, in double.

#include <algorithm>
#include <cmath>

#include "tern/operators/activation.hpp"

namespace tern::testing {

inline double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::relu6:
      return std::min(std::max(x, 0.0), 6.0);
    case Activation::gelu:
      return x * std::erfc(-x / std::sqrt(2.0)) / 2;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::hardswish:
      return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
  }
  return x;
}

}  // namespace tern::testing
