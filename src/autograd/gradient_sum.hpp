#pragma once

#include <vector>

#include "tern/tensor/tensor.hpp"

// Defined by the operators: the tape knows none by name.
namespace tern::autograd {

/// The sum of the gradients of one tensor, in order.
Tensor sum_of(const std::vector<Tensor>& gradients);
/// Adds `gradient` to the elements of the view `part`, in the view's dtype.
void add_to(const Tensor& part, const Tensor& gradient);

}  // namespace tern::autograd
