#pragma once

#include <utility>

#include "tern/tensor/tensor.hpp"

namespace tern::parallel {

/// The loss of a shard of a batch.
struct ShardLoss {
  ShardLoss(Tensor mean, Tensor totals = {}) : loss(std::move(mean)), sums(std::move(totals)) {}

  Tensor loss;  ///< the mean over its examples, one element
  Tensor sums;  ///< undefined, or figures to add over the shards, such as the number of right answers
};

}  // namespace tern::parallel
