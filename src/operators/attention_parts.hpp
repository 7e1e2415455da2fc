#pragma once

#include "operators/composed.hpp"

namespace tern::operators {

/// softmax(scores), where rows may be all -infinity: those are 0, and so is their gradient.
Tensor attention_weights(const Tensor& scores);

}  // namespace tern::operators
