#pragma once
// Shared by the slots of the products: problems, factors, and their rounding to bfloat16.

#include <limits>

#include "cuda/elementwise.cuh"
#include "cuda/products/own.cuh"

namespace tern::cuda::products {

inline Problem problem_of(const Context& context, Slot slot, Element element, const kernels::Matmul& shape) {
  Problem problem{shape};
  problem.slot = slot;
  problem.in = problem.out = element;
  problem.precision = context.precision;
  problem.deterministic = context.deterministic;
  problem.rule = tuning::rule_of(context);
  problem.device = card().device;
  return problem;
}
template <class T>
Problem problem_of(const Context& context, Slot slot, const kernels::Linear& shape) {
  Problem problem = problem_of(context, slot, element_of<T>,
                               {.m = shape.rows, .n = shape.out, .k = shape.in, .transpose_b = slot == Slot::linear});
  problem.activation = shape.activation;
  return problem;
}

/// Whether rows of this many floats all start at 16 bytes.
inline bool aligned(const void* pointer, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0 && stride % 4 == 0;
}
inline Factor factor(const void* data, std::int64_t stride, const float* mask = nullptr) {
  return {static_cast<const float*>(data), mask, stride, aligned(data, stride) && aligned(mask, stride)};
}

/// Whether our tiles can count a product's blocks.
inline bool fits_tiles(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
  return m < most && n < most && k < most && batch < 65536 && ceil_div(m, 32) * ceil_div(n, 32) < most / 8;
}

inline void round(const Context& context, void* out, const void* array, std::int64_t count) {
  map_packed<4>(context, count, Same{}, static_cast<bf16*>(out), static_cast<const float*>(array));
}
inline std::size_t rounded_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(bf16); }

/// Whether bfloat16 units can run it: they need rows of whole 16 bytes; other products use TF32.
inline bool in_bf16(const Problem& p) {
  return p.precision == Precision::bf16 && p.in == Element::float32 && p.m % 8 == 0 && p.n % 8 == 0 && p.k % 8 == 0;
}

/// A layer's gradients. (linear_backward.cu)
template <class T>
void linear_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const kernels::Linear& shape);

}  // namespace tern::cuda::products
