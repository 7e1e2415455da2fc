#pragma once
// Float32 products of few rows (GEMV), as in predictions for one image. Reading the weight once takes the time, not the
// multiply-adds, so no tile is staged and every thread has many loads in flight.

#include "cuda/products/own.cuh"

namespace tern::cuda::products {

inline constexpr int most_gemv = 4;

/// Both factors along k.
bool fits_gemv(const Problem& problem);
bool fits_gemv_backward(const Problem& problem);

void gemv_product(const Context& context, const Product& product);
/// Both gradients of a linear layer in one kernel; a product without `out` is skipped.
void gemv_backward(const Context& context, const Product& weight, const Product& data);

}  // namespace tern::cuda::products
