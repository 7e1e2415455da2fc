#pragma once
// Float32 products by the library whose rows are no whole 16 bytes: its tensor-core kernels for those are several times
// slower. Copies begin their rows at 16 bytes (padded.cu).

#include "cuda/products/problem.cuh"

namespace tern::cuda::products {

/// The copies pay: `first`; else `last`.
extern const Algorithm padded_first, padded_last;

}  // namespace tern::cuda::products
