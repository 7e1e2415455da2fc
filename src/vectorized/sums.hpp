#pragma once
// SIMD kernels that sum along rows: dot products, and the small parts of a gradient. Like those of gemm.hpp they are
// chosen once at run time and work on one thread.

#include <cstdint>

namespace tern::vectorized {

template <class T>
struct SumKernels {
  /// c [m, n] = a [m, k] b^T with b [n, k], or c += it: vectors along k, nothing packed. For few elements of c. With
  /// relu, results above `top` become that.
  void (*dots)(T* c, std::int64_t c_row, const T* a, std::int64_t a_row, const T* b, std::int64_t b_row, std::int64_t m,
               std::int64_t n, std::int64_t k, bool accumulate, const T* column_bias, bool relu, T top);
  /// out[i] = saved[i] <= 0 ? 0 : grad[i].
  void (*relu_gradient)(T* out, const T* grad, const T* saved, std::int64_t n);
  /// out[j] = the sum of column j of in [rows, n], in fixed blocks of rows.
  void (*column_sums)(T* out, const T* in, std::int64_t in_row, std::int64_t rows, std::int64_t n);
  /// The sum of n elements in a fixed order.
  T (*sum)(const T* in, std::int64_t n);
};

/// The kernels for the best instruction set of this processor.
template <class T>
const SumKernels<T>& sum_kernels();
template <>
const SumKernels<float>& sum_kernels<float>();
template <>
const SumKernels<double>& sum_kernels<double>();

}  // namespace tern::vectorized
