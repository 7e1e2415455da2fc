#pragma once
// Our own float32 products, and the rule that gives each shape its tiles and splits (cuts.cuh).

#include "cuda/products/cuts.cuh"
#include "cuda/products/problem.cuh"
#include "cuda/products/tile.cuh"

namespace tern::cuda::products {

/// Whether our tiles run on tensor cores: if float32 factors may be read as TF32 and the multiply-adds matter beside
/// the waits, which they do not in a backward pass of few rows.
inline bool on_tensor_cores(const Problem& problem) {
  return problem.precision != Precision::strict && card().code >= 80 &&
         (problem.slot != Slot::linear_backward || problem.m > 32);
}

/// Whether both factors are stored along k.
inline bool row_by_row(const Problem& problem) { return !problem.transpose_a && problem.transpose_b; }

Sizes sizes_of(const Problem& problem);

/// Uses only the forced algorithms of the context: "product_tile" (of the product, or of the weight's gradient) and
/// "product_split", the split of every split sum.
Tiling tiling_of(const Context& context, const Problem& problem);
/// For a linear layer's gradients that exist: the weight's [n, k] over m, and x's [m, k] over n.
Tiling tiling_of_backward(const Context& context, const Problem& problem);

/// out = op(a) op(b), with the batch and the strides of the problem.
void own_product(const Context& context, const Product& product, const Problem& problem, const Tiling& tiling);

/// Both gradients of a linear layer in one kernel; a product without `out` is skipped.
void own_backward(const Context& context, const Product& weight, const Product& data, const Problem& problem,
                  const Tiling& tiling);

}  // namespace tern::cuda::products
