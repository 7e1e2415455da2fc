#pragma once
// How clipping sums the squares of all gradients if other ranks hold parts of the model.

#include <atomic>
#include <functional>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::optim {

/// The sum of `squares` (float64 [1] per parameter, undefined without a gradient); undefined if there are none.
using SumOfSquares = Tensor (*)(const std::vector<Tensor>& parameters, const std::vector<Tensor>& squares);

/// Over all ranks. `parallel`, a floor above this one, sets it when the first parameter is divided. Null: no parameter
/// is divided.
inline std::atomic<SumOfSquares> sum_over_ranks{nullptr};

/// optim::clip_grad_norm with its own sum.
Tensor clip_by_sum(const std::vector<Tensor>& parameters, double max_norm,
                   const std::function<Tensor(const std::vector<Tensor>&, const std::vector<Tensor>&)>& sum);

}  // namespace tern::optim
