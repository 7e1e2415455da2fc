#pragma once

#include "tern/nn/sequential.hpp"

namespace tern::models {

/// Caffe's LeNet for [N, 1, 28, 28]: convolutions 20 and 50 of 5x5, each with a maximum pool 2x2 after it, then 500
/// with relu and 10. A Sequential whose parameters are named as torch's.
class LeNet : public nn::Sequential {
 public:
  explicit LeNet(std::uint64_t seed = 0);
  /// The mean cross-entropy of the logits; labels [N] int64.
  Tensor loss(const Tensor& x, const Tensor& labels) const;
  std::string describe() const override { return "LeNet"; }
};

}  // namespace tern::models
