#pragma once
// Clipping in a rank whose stage of a pipeline may have no parameters, from which the others' ranks could be learnt.

#include <memory>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::parallel {
struct Holding;
}

namespace tern::optim {

/// optim::clip_grad_norm over all `stages` (null: those of the parameters, if any).
Tensor clip_over_stages(const std::vector<Tensor>& parameters, double max_norm,
                        const std::shared_ptr<const parallel::Holding>& stages);

}  // namespace tern::optim
