#pragma once
// The arguments of the attention kernels.

#include <cmath>
#include <type_traits>

#include "cuda/support.cuh"
#include "tern/kernels/attention.hpp"

namespace tern::cuda::scaled_dot_product {

/// The widest rows that the kernels support.
inline constexpr std::int64_t most_width = 128;

/// The largest exponent that may be rounded before the maximum or the log-sum-exp is subtracted: weights then are off
/// by 2^-15 at most.
inline constexpr float most_folded = 1024;

/// Sizes of a head, and where its rows lie.
struct Sizes {
  int heads = 0, queries = 0, keys = 0, width = 0, values = 0;
  bool causal = false;
  float scale = 1;
  bool packs = false;  ///< every row of every array is a multiple of 16 bytes
  int middle = 1, inner = 1;
  int key_parts = 1, query_parts = 1;  ///< so many blocks share the gradients of some keys or queries
  kernels::HeadStrides query = {}, key = {}, value = {}, out = {};
  kernels::HeadStrides grad_query = {}, grad_key = {}, grad_value = {}, grad = {};

  /// The first element of a head.
  template <class T>
  __device__ __forceinline__ T* of_head(T* array, const kernels::HeadStrides& strides, int head) const {
    const int rest = head / inner;
    return array + rest / middle * strides.outer + rest % middle * strides.middle + head % inner * strides.inner;
  }
};

/// The exponent by which weights are smaller, so that sums of values stay finite: at most a power of two of keys are
/// summed. float16 has no exponents for smaller weights, and its sums need none.
template <class Element>
float weight_shift(const Sizes& sizes) {
  return std::is_same_v<Element, Float16> ? 0.0f : static_cast<float>(std::ceil(std::log2(sizes.keys)));
}

template <class T>
struct Forward {
  T* out;
  float* log_sum;
  const T *query, *key, *value;
};

template <class T>
struct Backward {
  T *grad_query, *grad_key, *grad_value;
  const T *grad, *query, *key, *value;
  const float *log_sum, *inner;  ///< inner: per row, the product of grad and the result
  float *query_parts = nullptr, *key_parts = nullptr, *value_parts = nullptr;
};

/// For kernels that make the inner products themselves.
template <class T>
struct StreamedBackward : Backward<T> {
  const T* out;
};

}  // namespace tern::cuda::scaled_dot_product
