#pragma once

#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

inline constexpr int max_rank = 8;

/// Element strides of up to three inputs over one contiguous output of `size`; a stride of 0 repeats the input along
/// that dimension. The caller has merged neighbouring dimensions: equal contiguous inputs arrive as rank 1 with strides
/// of 1, a scalar input with stride 0. Rank 0 means one element.
struct Broadcast {
  int rank = 0;
  std::int64_t size[max_rank] = {};
  std::int64_t stride[3][max_rank] = {};
  std::int64_t count = 1;  ///< elements of the output: the product of `size`

  using Members = MemberList<&Broadcast::rank, &Broadcast::size, &Broadcast::stride, &Broadcast::count>;
};

/// Elementwise arithmetic and comparisons. If an input is contiguous (`n`, or rank 1 with stride 1), `out` may be that
/// input.
template <class T>
struct Arithmetic {
  using Binary = Kernel<void(Context&, T* out, const T* a, const T* b, const Broadcast&)>;
  using Comparison = Kernel<void(Context&, bool* out, const T* a, const T* b, const Broadcast&)>;
  using Unary = Kernel<void(Context&, T* out, const T* in, std::int64_t n)>;

  Binary add, sub, mul, div;
  /// NaN if either is NaN.
  Binary maximum, minimum;
  /// a ^ b with std::pow's special cases; a - b * trunc(a / b), exact, with std::fmod's special cases.
  Binary power, fmod;
  Comparison equal, not_equal, less, less_equal, greater, greater_equal;
  /// out = condition ? a : b. Strides: [0] of a, [1] of b, [2] of condition.
  Kernel<void(Context&, T* out, const T* a, const T* b, const bool* condition, const Broadcast&)> where;
  /// out = a * b + c, rounded twice (multiply, then add). Strides in this order.
  Kernel<void(Context&, T* out, const T* a, const T* b, const T* c, const Broadcast&)> mul_add;

  Unary neg, exp, log, sqrt, abs;
  Unary sin, cos, erf;
  /// To whole numbers; `round` rounds halves to even. The result is -0 where the nearest whole number from below is.
  Unary floor, ceil, round;
  /// out = in ^ exponent, with std::pow's special cases.
  Kernel<void(Context&, T* out, const T* in, std::int64_t n, Scalar<T> exponent)> pow;
  /// out = min(max(in, low), high); NaN stays NaN.
  Kernel<void(Context&, T* out, const T* in, std::int64_t n, Scalar<T> low, Scalar<T> high)> clamp;
  /// out = scale * in + shift, rounded twice (multiply, then add).
  Kernel<void(Context&, T* out, const T* in, std::int64_t n, Scalar<T> scale, Scalar<T> shift)> affine;

  /// out = a + b + ... + h from left to right over n elements, rounded once; those from c on may be null, and then so
  /// are all behind them.
  Kernel<void(Context&, T* out, const T* a, const T* b, const T* c, const T* d, const T* e, const T* f, const T* g,
              const T* h, std::int64_t n)>
      add_all;

  /// grad_in = grad_out / (2 out), out = sqrt(in).
  Kernel<void(Context&, T* grad_in, const T* grad_out, const T* out, std::int64_t n)> sqrt_backward;
  /// grad_in = grad_out * sign(in), 0 at 0.
  Kernel<void(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n)> abs_backward;
  /// grad_in = grad_out * exponent * in ^ (exponent - 1); 0 when exponent is 0.
  Kernel<void(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n, Scalar<T> exponent)> pow_backward;
  /// grad_in = low <= in <= high ? grad_out : 0.
  Kernel<void(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n, Scalar<T> low, Scalar<T> high)>
      clamp_backward;

  /// The gradient of both inputs before it is summed over broadcast dimensions: grad_a and grad_b have the
  /// output's contiguous shape. The larger (smaller) input takes all, equal inputs take half each.
  using Select =
      Kernel<void(Context&, T* grad_a, T* grad_b, const T* grad_out, const T* a, const T* b, const Broadcast&)>;
  Select maximum_backward, minimum_backward;

  using Members =
      MemberList<&Arithmetic::add, &Arithmetic::sub, &Arithmetic::mul, &Arithmetic::div, &Arithmetic::maximum,
                 &Arithmetic::minimum, &Arithmetic::power, &Arithmetic::fmod, &Arithmetic::equal,
                 &Arithmetic::not_equal, &Arithmetic::less, &Arithmetic::less_equal, &Arithmetic::greater,
                 &Arithmetic::greater_equal, &Arithmetic::where, &Arithmetic::mul_add, &Arithmetic::neg,
                 &Arithmetic::exp, &Arithmetic::log, &Arithmetic::sqrt, &Arithmetic::abs, &Arithmetic::sin,
                 &Arithmetic::cos, &Arithmetic::erf, &Arithmetic::floor, &Arithmetic::ceil, &Arithmetic::round,
                 &Arithmetic::pow, &Arithmetic::clamp, &Arithmetic::affine, &Arithmetic::add_all,
                 &Arithmetic::sqrt_backward, &Arithmetic::abs_backward, &Arithmetic::pow_backward,
                 &Arithmetic::clamp_backward, &Arithmetic::maximum_backward, &Arithmetic::minimum_backward>;
};

}  // namespace tern::kernels
