#pragma once
// Matrix products by cuBLASLt, for shapes where it is fastest and for float64. It proposes several algorithms per
// problem, the most promising first. The slot does not matter here; the activation is none or relu.

#include "cuda/products/problem.cuh"

namespace tern::cuda::products {

/// The number of the proposal after `plan` (-1: the first), or -1. All are as reproducible as the problem requires.
int next_algorithm(const Problem& problem, int plan);
std::size_t algorithm_workspace(const Problem& problem, int plan);
void run_algorithm(const Context& context, const Problem& problem, const Arrays& arrays, int plan, void* workspace);
/// "library" for arrays of the type of its factors, and nothing around it.
extern const Algorithm library_algorithm;

}  // namespace tern::cuda::products
