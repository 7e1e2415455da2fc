#pragma once

#include <vector>

#include "tern/tensor/tensor.hpp"

// Defined among the operators: the tape knows none by name.
namespace tern::autograd {

/// The sum of gradients that meet in a tensor, in their order.
Tensor sum_of(const std::vector<Tensor>& gradients);
/// Adds `gradient` to the elements of the view `part`, in its dtype.
void add_to(const Tensor& part, const Tensor& gradient);

}  // namespace tern::autograd
