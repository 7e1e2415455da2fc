#pragma once

#include "tern/kernels/arithmetic.hpp"
#include "tern/kernels/reduction.hpp"

namespace tern::kernels {

/// Elementwise operators on integers, and on bool as the integers 0 and 1. Integer overflow wraps around; a bool result
/// is true unless it is 0. If an input is contiguous (rank 1 with stride 1, or `n`), `out` may be that input.
template <class T>
struct IntegerArithmetic {
  using Binary = Kernel<void(Context&, T* out, const T* a, const T* b, const Broadcast&)>;
  using Comparison = Kernel<void(Context&, bool* out, const T* a, const T* b, const Broadcast&)>;
  using Unary = Kernel<void(Context&, T* out, const T* in, std::int64_t n)>;

  Binary add, sub, mul;
  /// The quotient rounded toward 0, and a - b * quotient. Division by 0 gives 0 for both and is reported like a bad
  /// label (loss.hpp).
  Binary div, fmod;
  Binary maximum, minimum;
  Binary bitwise_and, bitwise_or, bitwise_xor;
  Comparison equal, not_equal, less, less_equal, greater, greater_equal;
  /// out = condition ? a : b. Strides: [0] of a, [1] of b, [2] of condition.
  Kernel<void(Context&, T* out, const T* a, const T* b, const bool* condition, const Broadcast&)> where;
  /// sign is -1, 0 or 1; bitwise_not of a bool is its negation.
  Unary neg, abs, sign, bitwise_not;

  using Members =
      MemberList<&IntegerArithmetic::add, &IntegerArithmetic::sub, &IntegerArithmetic::mul, &IntegerArithmetic::div,
                 &IntegerArithmetic::fmod, &IntegerArithmetic::maximum, &IntegerArithmetic::minimum,
                 &IntegerArithmetic::bitwise_and, &IntegerArithmetic::bitwise_or, &IntegerArithmetic::bitwise_xor,
                 &IntegerArithmetic::equal, &IntegerArithmetic::not_equal, &IntegerArithmetic::less,
                 &IntegerArithmetic::less_equal, &IntegerArithmetic::greater, &IntegerArithmetic::greater_equal,
                 &IntegerArithmetic::where, &IntegerArithmetic::neg, &IntegerArithmetic::abs, &IntegerArithmetic::sign,
                 &IntegerArithmetic::bitwise_not>;
};

/// Reductions of [outer, length, inner] along `length` into [outer, inner].
template <class T>
struct IntegerReduction {
  /// 0 and 1 for no elements. Wraps around in 64 bits.
  Kernel<void(Context&, std::int64_t*out, const T*in, const Axis&)> sum, prod;
  /// As in Reduction: the first largest (smallest) element and its position. length > 0. Either output may be null.
  using Extreme = Kernel<void(Context&, T* out, std::int64_t* index, const T* in, const Axis&)>;
  Extreme max, min;
  /// Whether any (every) element is not 0; false (true) for no elements.
  Kernel<void(Context&, bool*out, const T*in, const Axis&)> any, all;

  using Members = MemberList<&IntegerReduction::sum, &IntegerReduction::prod, &IntegerReduction::max,
                             &IntegerReduction::min, &IntegerReduction::any, &IntegerReduction::all>;
};

/// Sorting, as in Shape.
template <class T>
struct IntegerShape {
  Kernel<void(Context&, std::int64_t* order, const T* in, const Axis&, bool descending)> argsort;

  using Members = MemberList<&IntegerShape::argsort>;
};

}  // namespace tern::kernels
