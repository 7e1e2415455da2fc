#pragma once
// The arguments of the attention kernels.

#include "cuda/support.cuh"
#include "tern/kernels/attention.hpp"

namespace tern::cuda::scaled_dot_product {

/// Sizes of a head, and where its rows lie.
struct Sizes {
  int heads = 0, queries = 0, keys = 0, width = 0, values = 0;
  bool causal = false;
  float scale = 1;
  bool packs = false;  ///< every row of every array is a multiple of 16 bytes
  int middle = 1, inner = 1;
  kernels::HeadStrides query = {}, key = {}, value = {}, out = {};
  kernels::HeadStrides grad_query = {}, grad_key = {}, grad_value = {}, grad = {};

  /// The first element of a head.
  template <class T>
  __device__ __forceinline__ T* of_head(T* array, const kernels::HeadStrides& strides, int head) const {
    const int rest = head / inner;
    return array + rest / middle * strides.outer + rest % middle * strides.middle + head % inner * strides.inner;
  }
};

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
};

}  // namespace tern::cuda::scaled_dot_product
