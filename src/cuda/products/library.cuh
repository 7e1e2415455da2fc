#pragma once
// Matrix products by cuBLASLt, for shapes where it is at its best and for float64. It proposes several algorithms for a
// problem, the most promising first. The slot counts for nothing here; with a bias, the activation is none or relu.

#include "cuda/products/problem.cuh"

namespace tern::cuda::products {

/// The number of the proposal behind `plan` (-1: the first), or -1. All repeat as the problem says.
int next_algorithm(const Problem& problem, int plan);
std::size_t algorithm_workspace(const Problem& problem, int plan);
void run_algorithm(const Context& context, const Problem& problem, const Arrays& arrays, int plan, void* workspace);

}  // namespace tern::cuda::products
