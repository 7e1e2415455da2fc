#pragma once
// The tiles that attention takes, and its launches.

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "cuda/attention/sizes.cuh"
#include "tern/kernels/attention.hpp"

namespace tern::cuda::scaled_dot_product {

/// The widest rows that the kernels take.
inline constexpr std::int64_t most_width = 128;

/// Whether factors of products may be read as TF32, and can be.
inline bool on_tensor_cores(const Context& context) {
  return context.precision != Precision::strict && card().code >= 80;
}

/// How often a card's multiprocessors are filled by one block for each `rows` rows.
inline double fill(const Sizes& sizes, std::int64_t count, std::int64_t rows) {
  return static_cast<double>(sizes.heads * ceil_div(count, rows)) / card().multiprocessors;
}

/// Calls body(std::integral_constant) with the width that rows of up to `width` are padded to.
template <class Body>
void with_width(int width, const Body& body) {
  if (width <= 32)
    body(std::integral_constant<int, 32>{});
  else if (width <= 64)
    body(std::integral_constant<int, 64>{});
  else
    body(std::integral_constant<int, 128>{});
}

/// The most shared memory that a block of these sizes takes, in bytes.
std::size_t forward_shared(const Context& context, const Sizes& sizes);
std::size_t backward_shared(const Context& context, const Sizes& sizes);

void run_forward(const Context& context, const Forward& pass, const Sizes& sizes);
/// inner [heads, queries]: what rows of grad and of the result give; backward wants it.
void run_inner(const Context& context, float* inner, const float* grad, const float* out, const Sizes& sizes);
void run_backward(const Context& context, const Backward& pass, const Sizes& sizes);

}  // namespace tern::cuda::scaled_dot_product
