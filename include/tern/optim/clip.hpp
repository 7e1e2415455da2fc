#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::optim {

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the Euclidean norm of all of them together.
/// Returns the norm (float32 for 16-bit gradients, float64 if some are float64). The squares are summed in float64, so
/// that none overflows or underflows. Call it between backward and step; the host does not wait.
///
/// If ranks hold a model together, the norm is that of the whole model: it includes the shards of a
/// parallel::SplitModule and the stages of a parallel::Pipeline in other ranks. All of these ranks must call it, with
/// the parameters of the same modules.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm);

}  // namespace tern::optim
