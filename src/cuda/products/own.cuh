#pragma once
// Our own products of float32, and the rule that gives each shape its tiles and splits. The rule is arithmetic, not a
// timing, so that results repeat bit for bit from one process to the next.

#include "cuda/products/problem.cuh"
#include "cuda/products/tile.cuh"

namespace tern::cuda::products {

/// A tile shape (an index into the list in tiles.cuh) and the split of each sum. `cost` is the rule's guess in
/// microseconds.
struct Tiling {
  int tile = 0, split = 1;            ///< of the product, or of the gradient of the weight
  int tile_data = 0, split_data = 1;  ///< of the gradient of x
  float cost = 0;
};

/// Whether our tiles run on tensor cores: where float32 factors may be read as TF32, and the multiply-adds count beside
/// the waits, which in a backward pass of few rows they do not.
inline bool on_tensor_cores(const Problem& problem) {
  return problem.precision != Precision::strict && card().code >= 80 &&
         (problem.slot != Slot::linear_backward || problem.m > 32);
}

/// Whether both factors lie along k.
inline bool row_by_row(const Problem& problem) { return !problem.transpose_a && problem.transpose_b; }

/// Of the context only the forced algorithms count: "product_tile" (of the product, or of the gradient of the weight)
/// and "product_split", the split of every sum that is split.
Tiling tiling_of(const Context& context, const Problem& problem);
/// Of a linear layer's gradients, the [n, k] one of the weight over m and the [m, k] one of x over n, those that are
/// given.
Tiling tiling_of_backward(const Context& context, const Problem& problem);

/// out = op(a) op(b), as often and with the strides that the problem says.
void own_product(const Context& context, const Product& product, const Problem& problem, const Tiling& tiling);

/// Both gradients of a linear layer in one kernel; a product without `out` is left out.
void own_backward(const Context& context, const Product& weight, const Product& data, const Problem& problem,
                  const Tiling& tiling);

/// The tilings that exist, for the rule and for whoever measures it.
bool product_exists(int tile, bool by_rows);
bool backward_exists(int tile, int tile_data);
inline constexpr int tile_shapes = 6;
inline constexpr int largest_split = 8;  ///< the largest cluster that every card with clusters grants

}  // namespace tern::cuda::products
