#pragma once
// Float32 products of small layers and batches, which are latency-bound: see slices.cuh. The rule that gives each shape
// its tiles is arithmetic, like that of own.cuh.

#include "cuda/products/own.cuh"

namespace tern::cuda::products {

/// Factors in rows of whole 16 bytes; in a backward pass the output's gradient may have any alignment. Strict float32
/// needs a card with fast doubles.
bool fits_sliced(const Problem& problem);
bool fits_sliced_backward(const Problem& problem);
/// Whether the other algorithms are slower, on an H200.
bool prefers_sliced(const Problem& problem);
bool prefers_sliced_backward(const Problem& problem);

/// Uses only the forced algorithm "product_slices" of the context.
void sliced_product(const Context& context, const Product& product, const Problem& problem);
/// Both gradients of a linear layer in one kernel; a product without `out` is skipped.
void sliced_backward(const Context& context, const Product& weight, const Product& data, const Problem& problem);

// ---- the rule (sliced_rule.cu) ----

Slices slices_of(const Context& context, const Problem& problem);
Slices slices_of_backward(const Context& context, const Problem& problem);

}  // namespace tern::cuda::products
