#pragma once

#include <functional>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern {

/// The results of functions that do not depend on each other, such as the branches of an inception module. They run one
/// after the other. In a Step that a mode has recorded (cuda), small work runs concurrently, and functions that queue
/// the same kernels in the same order, such as training steps of models of one shape, share their launches. The
/// functions may read the same tensors but must not write what another one reads.
///
///     std::vector<Tensor> parts = branches({[&] { return narrow(x); }, [&] { return wide(x); }});
std::vector<Tensor> branches(const std::vector<std::function<Tensor()>>& functions);

}  // namespace tern
