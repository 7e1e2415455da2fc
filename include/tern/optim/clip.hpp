#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::optim {

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), norm being the Euclidean norm of all of them together,
/// which is returned (float32 of 16-bit gradients, float64 where some are). Call it between backward and step; the host
/// waits for nothing.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm);

}  // namespace tern::optim
