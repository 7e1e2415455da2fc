#pragma once
// How clipping adds up the squares of all gradients, where other ranks hold parts of the model.

#include <atomic>
#include <functional>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::optim {

/// The sum of `squares` (float64 [1] for each parameter, undefined where there is no gradient); undefined where there
/// are none.
using SumOfSquares = Tensor (*)(const std::vector<Tensor>& parameters, const std::vector<Tensor>& squares);

/// Over all ranks: the parallel part, which stands above this one, sets it when the first parameter is divided. Null:
/// all parameters are whole.
inline std::atomic<SumOfSquares> sum_over_ranks{nullptr};

/// optim::clip_grad_norm with a sum of one's own.
Tensor clip_by_sum(const std::vector<Tensor>& parameters, double max_norm,
                   const std::function<Tensor(const std::vector<Tensor>&, const std::vector<Tensor>&)>& sum);

}  // namespace tern::optim
