#pragma once
// Activations of temporaries, whose results may take over the memory.

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

Tensor relu_of(Tensor&& x);
Tensor sigmoid_of(Tensor&& x);
Tensor tanh_of(Tensor&& x);

}  // namespace tern::operators
