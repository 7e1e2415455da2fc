#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::optim {

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), norm being the Euclidean norm of all of them together,
/// which is returned (float32 of 16-bit gradients, float64 where some are). The squares are summed in float64, so no
/// gradient is too large or too small. Call it between backward and step; the host waits for nothing.
///
/// Where ranks hold a model together, the norm is that of the whole model: the parts of a parallel::SplitModule and the
/// stages of a parallel::Pipeline in the other ranks count. Then all of these ranks call it, with the parameters of the
/// same modules.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm);

}  // namespace tern::optim
