#pragma once
// Shared by the constructors of the image networks.

#include <algorithm>

#include "tern/nn/init.hpp"

namespace tern::models {

/// Divides published widths.
class Widths {
 public:
  Widths(const char* network, std::int64_t divisor) : divisor_(divisor) {
    expects<ShapeError>(divisor >= 1, network, ": width_divisor ", divisor, ", expected at least 1");
  }
  /// A multiple of `groups`, and at least that.
  std::int64_t operator()(std::int64_t published, std::int64_t groups = 1) const {
    return groups * std::max<std::int64_t>(1, published / (divisor_ * groups));
  }

 private:
  std::int64_t divisor_;
};

/// Initial values of the last layer: no relu follows it, and large logits would only be unlearnt.
inline nn::Start last_start(nn::Start start) { return start == nn::Start::kaiming ? nn::Start::torch : start; }

}  // namespace tern::models
