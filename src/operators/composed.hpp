#pragma once
// Shared by operators without a slot: they are composed of public ones, once for every mode.

#include "operators/support.hpp"
#include "tern/operators/arithmetic.hpp"

namespace tern::operators {

/// Throws unless the tensor is defined and floating, in the name of the composed operator rather than of its parts.
inline void check_floating(const char* op, const char* which, const Tensor& x) {
  check_defined(op, which, x);
  expects<DTypeError>(is_floating(x.dtype()), op, ": inputs are ", x.dtype(),
                      "; operators compute in floating dtypes, convert with to(...)");
}

/// compute(x), in float32 if x has 16 bits: the result is rounded once instead of in every part, and scalar arguments
/// keep their digits.
template <class Compute>
Tensor in_scalars(const char* op, const Tensor& x, Compute compute) {
  check_defined(op, "the input", x);
  return compute(x.to(scalar_of(x.dtype()))).to(x.dtype());
}

/// The same for two tensors of one dtype.
template <class Compute>
Tensor in_scalars(const char* op, const Tensor& a, const Tensor& b, Compute compute) {
  check_dtypes(op, a, b);
  const DType wide = scalar_of(a.dtype());
  return compute(a.to(wide), b.to(wide)).to(a.dtype());
}

/// The same for a floating dtype.
template <class Compute>
Tensor compose(const char* op, const Tensor& x, Compute compute) {
  check_floating(op, "the input", x);
  return in_scalars(op, x, compute);
}
template <class Compute>
Tensor compose(const char* op, const Tensor& a, const Tensor& b, Compute compute) {
  check_dtypes(op, a, b);
  check_floating(op, "the first input", a);
  return in_scalars(op, a, b, compute);
}

/// x, which must be defined, in another dtype.
inline Tensor converted(const char* op, const Tensor& x, DType dtype) {
  check_defined(op, "the input", x);
  return x.to(dtype);
}

/// Where x is not 0: bool, no gradient.
inline Tensor truths(const char* op, const Tensor& x) {
  check_defined(op, "the input", x);
  return x.detach().to(DType::boolean);
}

/// where(condition, value, x); no gradient passes where the condition holds.
inline Tensor replace(const Tensor& x, const Tensor& condition, double value) {
  return where(condition, number_like(x, value), x);
}

/// The shape of a reduction of x; errors in the dimensions name `op`.
Shape reduced_shape(const char* op, const Tensor& x, const Dims& dims, bool keep_dims);

/// 0, 1, ... [count] in float64, made in the scope's mode.
Tensor positions(std::int64_t count);

/// A bool matrix that is true where column - row <= diagonal, made in the scope's mode.
Tensor on_or_below(std::int64_t rows, std::int64_t columns, std::int64_t diagonal);

}  // namespace tern::operators
