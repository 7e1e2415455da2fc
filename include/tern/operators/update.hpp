#pragma once

#include "tern/kernels/update.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern::operators {

/// One optimiser step over all parameters in one kernel, in place, not recorded. The vectors are parallel; all tensors
/// are contiguous and of one dtype; `learning_rate` has one element. The caller leaves out parameters without a
/// gradient. `momenta` is empty if momentum is 0. A learning rate of NaN changes nothing, but a first momentum becomes
/// 0: so the device can decide about a step.
void sgd(const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
         const std::vector<Tensor>& momenta, const Tensor& learning_rate, const kernels::Sgd& options);
/// `step` is one int64 element that the kernel increments, unless the learning rate is NaN.
void adam(const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients, const std::vector<Tensor>& first,
          const std::vector<Tensor>& second, const Tensor& learning_rate, const Tensor& step,
          const kernels::Adam& options);

}  // namespace tern::operators
