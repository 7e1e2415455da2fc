#pragma once

#include "tern/nn/sequential.hpp"

namespace tern::models {

/// Caffe's LeNet for [N, 1, 28, 28]: 5x5 convolutions with 20 and 50 channels, each followed by 2x2 max pooling, then
/// 500 units with relu and 10. A Sequential with torch's parameter names.
class LeNet : public nn::Sequential {
 public:
  explicit LeNet(std::uint64_t seed = 0);
  /// The mean cross-entropy of the logits; labels [N] int64.
  Tensor loss(const Tensor& x, const Tensor& labels) const;
  std::string describe() const override { return "LeNet"; }
};

}  // namespace tern::models
