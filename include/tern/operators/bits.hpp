#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

// Shifts of integers by `count` places, both of one dtype and broadcast. A count below 0, or of at least the dtype's
// bits, shifts everything out.

/// a * 2^count without the bits that do not fit.
Tensor bitwise_left_shift(const Tensor& a, const Tensor& count);
/// a / 2^count rounded downwards: the sign is kept.
Tensor bitwise_right_shift(const Tensor& a, const Tensor& count);

}  // namespace tern::operators
