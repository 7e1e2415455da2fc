#pragma once
// Matrix products by cuBLASLt, for shapes where it is at its best and for float64.

#include <cublasLt.h>

#include <memory>

#include "cuda/bfloat16.cuh"
#include "cuda/support.cuh"
#include "tern/kernels/dot.hpp"

namespace tern::cuda {

/// What follows a product of floats: activation(product + bias), with `pitch` elements from a row of out to the next.
struct Finish {
  const float* bias = nullptr;  ///< one for each column
  bool relu = false;
  std::int64_t pitch = 0;  ///< 0: the number of columns
};

/// A product as cuBLASLt sees it, and the algorithms that it proposes.
struct LibraryProduct;

/// How cuBLASLt computes one product.
struct LibraryPlan {
  std::shared_ptr<const LibraryProduct> product;
  std::size_t algorithm = 0;

  /// False: the library knows no way to finish such a product.
  bool exists() const;
  std::size_t workspace() const;
};

/// The plan for out = op(a) op(b); the factors are of the type of `out`, or bfloat16 for a float one. Without
/// `deterministic`, and outside a recording, the first call times the library's candidates on the arrays it gets (`out`
/// is overwritten).
template <class T, class In>
LibraryPlan library_plan(Context& context, T* out, const In* a, const In* b, const kernels::Matmul& shape,
                         Finish finish = {});

/// Queues the product on `stream`; `workspace` has plan.workspace() bytes.
template <class T, class In>
void library_product(const LibraryPlan& plan, cudaStream_t stream, void* workspace, T* out, const In* a, const In* b,
                     Finish finish = {});

}  // namespace tern::cuda
