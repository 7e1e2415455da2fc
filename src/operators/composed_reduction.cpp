// Reductions without a slot of their own.

#include <algorithm>
#include <cmath>
#include <limits>

#include "operators/composed.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

// The square root, whose derivative at 0 is 0.
Tensor root(const Tensor& x) {
  const Tensor at_zero = equal(x, 0);
  return replace(sqrt(replace(x, at_zero, 1)), at_zero, 0);
}

// About the largest magnitude along `dims`, kept: a power of two, by which elements are divided without rounding. 1
// where that is 0 or not finite, and where there is none. No gradient.
Tensor scale_of(const Tensor& x, const Dims& dims) {
  if (x.numel() == 0) return number_like(x, 1);
  const Tensor largest = max(abs(x.detach()), dims, true), one = number_like(x, 1);
  const Tensor usual = logical_and(greater(largest, 0), less(largest, infinity)), high = greater(largest, 1);
  const Tensor part = where(usual, mul(largest, where(high, number_like(x, 0x1p-60), one)), one);
  // (2^n + 1) part - 2^n part has the first bit of part's alone (Veltkamp's splitting): half of that where it is high.
  const Tensor wide = mul(part, x.dtype() == DType::float64 ? 0x1p52 + 1 : 0x1p23 + 1);
  return mul(sub(wide, sub(wide, part)), where(logical_and(usual, high), number_like(x, 0x1p59), one));
}

// value(x), whose gradient is that of x. What is divided by a scale first and multiplied by it last has the same
// gradient as without it, and one that is multiplied by the scale on the way may leave the range.
template <class Value>
Tensor scaled(const Tensor& x, Value value) {
  Tensor out = value(x.detach());
  if (autograd::recording(x))
    autograd::record("scaled", out, {x}, [](const Tensor& grad) { return autograd::Gradients{grad}; });
  return out;
}

}  // namespace

Tensor std(const Tensor& x, const Dims& dims, std::int64_t correction, bool keep_dims) {
  expects<NumericError>(correction >= 0, "std: correction ", correction, ", expected at least 0");
  return compose("std", x, [&](const Tensor& wide) {
    const Tensor scale = scale_of(wide, dims);
    const Tensor small = scaled(wide, [&](const Tensor& part) { return div(part, scale); });
    const Tensor kept =
        scaled(root(var(small, dims, correction, true)), [&](const Tensor& value) { return mul(value, scale); });
    return keep_dims ? kept : kept.reshape(sum(wide.detach(), dims).shape());
  });
}

Tensor norm(const Tensor& x, double order, const Dims& dims, bool keep_dims) {
  expects<NumericError>(order == 1 || order == 2 || order == infinity, "norm: order ", order,
                        ", expected 1, 2 or infinity");
  return compose("norm", x, [&](const Tensor& wide) {
    if (order == 1) return sum(abs(wide), dims, keep_dims);
    if (order == infinity) return max(abs(wide), dims, keep_dims);
    // Squares of numbers up to 1 stay inside the range.
    const Tensor scale = scale_of(wide, dims);
    const Tensor small = scaled(wide, [&](const Tensor& part) { return div(part, scale); });
    const Tensor kept =
        scaled(root(sum(square(small), dims, true)), [&](const Tensor& value) { return mul(value, scale); });
    return keep_dims ? kept : kept.reshape(sum(wide.detach(), dims).shape());
  });
}

Tensor cumsum(const Tensor& x, std::int64_t dim) {
  check_defined("cumsum", "the input", x);
  const int place = normalize_dim("cumsum", dim, x.rank());
  if (!is_floating(x.dtype()) && x.dtype() != DType::int64) return cumsum(x.to(DType::int64), dim);
  return in_scalars("cumsum", x, [place](const Tensor& wide) {
    // Sums of 1, 2, 4, ... elements that end at each place.
    Tensor sums = copy(wide.detach());
    for (std::int64_t reach = 1, size = wide.shape()[place]; reach < size; reach *= 2) {
      const Tensor further = add(sums.slice(place, reach, size), sums.slice(place, 0, size - reach));
      sums = cat({sums.slice(place, 0, reach), further}, place);
    }
    if (recording(wide))
      record("cumsum", sums, {wide},
             [place](const Tensor& grad) { return Gradients{flip(cumsum(flip(grad, place), place), place)}; });
    return sums;
  });
}

Tensor logsumexp(const Tensor& x, const Dims& dims, bool keep_dims) {
  return compose("logsumexp", x, [&](const Tensor& wide) {
    // An infinite largest element is not taken out: its differences would be NaN.
    Tensor largest = number_like(wide, 0);
    if (wide.numel() > 0) {
      largest = max(wide.detach(), dims, true);
      largest = replace(largest, isinf(largest), 0);
    }
    const Tensor total = sum(exp(sub(wide, largest)), dims, true);
    const Tensor nothing = equal(total, 0);
    const Tensor kept = add(replace(log(replace(total, nothing, 1)), nothing, -infinity), largest);
    return keep_dims ? kept : kept.reshape(sum(wide.detach(), dims).shape());
  });
}

}  // namespace tern::operators
