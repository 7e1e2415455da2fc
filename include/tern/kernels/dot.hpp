#pragma once

#include <compare>

#include "tern/kernels/activation.hpp"

namespace tern::kernels {

/// out[b] = op(a[b]) op(b[b]) for b in [0, batch): out is [m, n], op(a) [m, k], op(b) [k, n]; a transposed factor is
/// stored as [k, m] or [n, k]. Batch strides are in elements; 0 repeats one matrix for the whole batch. k = 0 gives
/// zeros.
struct Matmul {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t stride_a = 0, stride_b = 0;  ///< of out always m * n
  auto operator<=>(const Matmul&) const = default;

  using Members = MemberList<&Matmul::batch, &Matmul::m, &Matmul::n, &Matmul::k, &Matmul::transpose_a,
                             &Matmul::transpose_b, &Matmul::stride_a, &Matmul::stride_b>;
};

/// x is [rows, in], weight [out, in], bias [out] or null, y [rows, out].
struct Linear {
  std::int64_t rows = 0, in = 0, out = 0;
  Activation activation = Activation::none;
  bool wide_parameters = false;  ///< linear_backward, 16 bits: the arrays of grad_weight and grad_bias are of
                                 ///< Scalar<T>; only if Operators::wide_parameters

  using Members = MemberList<&Linear::rows, &Linear::in, &Linear::out, &Linear::activation, &Linear::wide_parameters>;
};

/// Matrix products.
template <class T>
struct Dot {
  Kernel<void(Context&, T* out, const T* a, const T* b, const Matmul&)> matmul;

  /// y = activation(x weight^T + bias). `bias` may be null.
  Kernel<void(Context&, T* y, const T* x, const T* weight, const T* bias, const Linear&)> linear;
  /// With g = grad_y * activation'(y): grad_x = g weight, grad_weight = g^T x, grad_bias = column sums of g. A null
  /// gradient is not computed. Inputs that are not read may be null: y without an activation, weight without grad_x, x
  /// without grad_weight.
  Kernel<void(Context&, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x, const T* weight,
              const T* y, const Linear&)>
      linear_backward;

  using Members = MemberList<&Dot::matmul, &Dot::linear, &Dot::linear_backward>;
};

}  // namespace tern::kernels
