#pragma once

#include <utility>

#include "tern/tensor/tensor.hpp"

namespace tern::parallel {

/// What a part of a batch gives.
struct Part {
  Part(Tensor mean, Tensor totals = {}) : loss(std::move(mean)), sums(std::move(totals)) {}

  Tensor loss;  ///< the mean over its examples, one element
  Tensor sums;  ///< undefined, or figures that are added over the parts, such as the number of right answers
};

}  // namespace tern::parallel
