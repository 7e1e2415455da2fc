#pragma once
// What the losses of labelled rows and their gradients share.

#include <limits>

#include "cuda/reduce.cuh"
#include "tern/kernels/loss.hpp"

namespace tern::cuda {

using kernels::CrossEntropy;
using kernels::Reduce;

template <class T>
__device__ constexpr T quiet_nan() {
  return std::numeric_limits<T>::quiet_NaN();
}

template <class T>
struct CrossEntropyGradient {
  const T* probabilities;
  T at_label, elsewhere;  ///< the target
  template <int V>
  __device__ Pack<T, V> input(std::int64_t i) const {
    return load<V>(probabilities + i);
  }
  __device__ T operator()(T scale, T probability, bool is_label) const {
    return scale * (probability - (is_label ? at_label : elsewhere));
  }
};

template <class T>
CrossEntropyGradient<T> gradient_of(const T* probabilities, const CrossEntropy& sizes) {
  const double uniform = sizes.label_smoothing / static_cast<double>(std::max<std::int64_t>(sizes.classes, 1));
  return {probabilities, static_cast<T>(1 - sizes.label_smoothing + uniform), static_cast<T>(uniform)};
}

/// The number of labels that count among those of this block's threads.
inline __device__ int counted(const std::int64_t* labels, const CrossEntropy& sizes, std::int64_t first,
                              std::int64_t step) {
  int rows = 0;
#pragma unroll 4
  for (std::int64_t row = first; row < sizes.rows; row += step) rows += labels[row] != sizes.ignore_index;
  return reduce_block(rows, Plus{});
}

}  // namespace tern::cuda
