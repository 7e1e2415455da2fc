#pragma once
// SIMD kernels that sum along rows: dot products, and the small parts of a gradient. Like those of gemm.hpp they are
// chosen once at run time and work on one thread.

#include <cstdint>
#include <limits>

#include "vectorized/run.hpp"

namespace tern::vectorized {

/// c [m, n] = a b^T, or c += it: row i of a and row j of b are multiplied over the runs, with vectors along k. Nothing
/// is packed. With relu, results above `top` become that.
template <class T>
struct Dots {
  T* c = nullptr;
  std::int64_t c_row = 0;
  const T* a = nullptr;
  std::int64_t a_row = 0;
  const T* b = nullptr;
  std::int64_t b_row = 0, m = 0, n = 0;
  const Run* runs = nullptr;
  std::int64_t run_count = 0;
  bool accumulate = false;
  const T* column_bias = nullptr;  ///< [n] or null
  bool relu = false;
  T top = std::numeric_limits<T>::infinity();
};

template <class T>
struct SumKernels {
  void (*dots)(const Dots<T>&);                  ///< for few elements of c
  std::int64_t dot_rows, dot_columns, dot_sums;  ///< the most of a tile, of which its sums are rows x columns
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
