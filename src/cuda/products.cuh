#pragma once
// Our own float32 products, and the rule that gives each shape its tiles and splits. The rule is arithmetic, not a
// timing, so that results repeat bit for bit from one process to the next.

#include "cuda/product.cuh"

namespace tern::cuda {

/// A tile shape (an index into the list in products.cu) and the split of each sum. `cost` is the rule's guess in
/// microseconds.
struct Choice {
  int tile = 0, split = 1;            ///< of the product, or of the gradient of the weight
  int tile_data = 0, split_data = 1;  ///< of the gradient of x
  float cost = 0;
};

/// Of the context only the forced ways count: "product_tile" (of the product, or of the gradient of the weight) and
/// "product_split", the split of every sum that is split.
Choice choose_product(const Context& context, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch,
                      bool row_by_row);
/// `weight` is the [out, in] product over rows, `data` the [rows, in] product over out; either may be absent.
Choice choose_backward(const Context& context, std::int64_t rows, std::int64_t in, std::int64_t out, bool weight,
                       bool data);

/// out = op(a) op(b), `batch` times with these strides.
void own_product(const Context& context, const Product& product, bool transpose_a, bool transpose_b,
                 const Choice& choice, std::int64_t batch = 1, std::int64_t stride_a = 0, std::int64_t stride_b = 0);

/// Both gradients of a linear layer in one kernel; a product without `out` is left out.
void own_backward(const Context& context, Product weight, Product data, const Choice& choice);

/// The choices that exist, for the rule and for whoever measures it.
bool product_exists(int tile, bool row_by_row);
bool backward_exists(int tile, int tile_data);
inline constexpr int tile_shapes = 6;
inline constexpr int largest_split = 8;  ///< the largest cluster that every card with clusters grants

}  // namespace tern::cuda
