#pragma once
// The tiles of attention, and its launches.

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "cuda/attention/sizes.cuh"
#include "tern/kernels/attention.hpp"

namespace tern::cuda::scaled_dot_product {

/// Whether factors of products may and can be read as TF32.
inline bool on_tensor_cores(const Context& context) {
  return context.precision != Precision::strict && card().code >= 80;
}

/// How often one block per `rows` rows fills the card's multiprocessors.
inline double fill(const Sizes& sizes, std::int64_t count, std::int64_t rows) {
  return static_cast<double>(sizes.heads * ceil_div(count, rows)) / card().multiprocessors;
}

/// Calls body(std::integral_constant) with the padded width for rows of up to `width`.
template <class Body>
void with_width(int width, const Body& body) {
  if (width <= 32)
    body(std::integral_constant<int, 32>{});
  else if (width <= 64)
    body(std::integral_constant<int, 64>{});
  else if (width <= 96)
    body(std::integral_constant<int, 96>{});
  else
    body(std::integral_constant<int, 128>{});
}

/// The most shared memory that a block of these sizes needs, in bytes.
template <class T>
std::size_t forward_shared(const Context& context, const Sizes& sizes);
template <class T>
std::size_t backward_shared(const Context& context, const Sizes& sizes);

template <class T>
void run_forward(Context& context, const Forward<T>& pass, const Sizes& sizes);
/// inner [heads, queries]: the products of rows of grad and of the result, for backward.
template <class T>
void run_inner(const Context& context, float* inner, const T* grad, const T* out, const Sizes& sizes);
template <class T>
void run_backward(Context& context, const Backward<T>& pass, const Sizes& sizes);

/// Few queries, whose keys and values are read once.
inline constexpr std::int64_t most_streamed = 4;
template <class T>
void run_streamed(Context& context, const Forward<T>& pass, const Sizes& sizes);
template <class T>
void run_streamed_backward(Context& context, const StreamedBackward<T>& pass, const Sizes& sizes);

/// Whether the card multiplies by warpgroups, and this build has the kernels: for 16-bit elements.
bool has_groups();
template <class T>
void run_forward_groups(Context& context, const Forward<T>& pass, const Sizes& sizes);
template <class T>
void run_backward_groups(Context& context, const Backward<T>& pass, const Sizes& sizes);
/// The same from one computation of the weights, where a block holds all keys of a head.
template <class T>
void run_backward_single(Context& context, const Backward<T>& pass, const Sizes& sizes);
/// Whether that is possible and takes fewer products on the busiest multiprocessor.
template <class T>
bool single_faster(const Backward<T>& pass, const Sizes& sizes);

}  // namespace tern::cuda::scaled_dot_product
