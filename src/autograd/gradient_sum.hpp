#pragma once

#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::autograd {

/// The sum of gradients that meet in a tensor, in their order. Defined among the operators: the tape knows none by
/// name.
Tensor sum_of(const std::vector<Tensor>& gradients);

}  // namespace tern::autograd
