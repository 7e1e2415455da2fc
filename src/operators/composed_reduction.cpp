// Reductions without a slot of their own.

#include <algorithm>
#include <cmath>
#include <limits>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

// The square root, with derivative 0 at 0.
Tensor root(const Tensor& x) {
  const Tensor at_zero = equal(x, 0);
  return replace(sqrt(replace(x, at_zero, 1)), at_zero, 0);
}

// A power of two near each of `largest`, which are not negative; elements are divided by it without rounding. 1 where
// the value is 0 or not finite.
Tensor power_of_two_near(const Tensor& largest) {
  const Tensor one = number_like(largest, 1);
  const Tensor usual = logical_and(greater(largest, 0), less(largest, infinity)), high = greater(largest, 1);
  const Tensor part = where(usual, mul(largest, where(high, number_like(largest, 0x1p-60), one)), one);
  // (2^n + 1) part - 2^n part keeps only the leading bit of part (Veltkamp's splitting); half of it if it is high.
  const Tensor wide = mul(part, largest.dtype() == DType::float64 ? 0x1p52 + 1 : 0x1p23 + 1);
  return mul(sub(wide, sub(wide, part)), where(logical_and(usual, high), number_like(largest, 0x1p59), one));
}

// The scale of the largest magnitude along `dims`, with kept dimensions; 1 without elements. No gradient.
Tensor scale_of(const Tensor& x, const Dims& dims) {
  return x.numel() == 0 ? number_like(x, 1) : power_of_two_near(max(abs(x.detach()), dims, true));
}

// value(x) with the gradient of x. Dividing by a scale first and multiplying by it last does not change the gradient,
// but the multiplication in backward could overflow.
template <class Value>
Tensor scaled(const Tensor& x, Value value) {
  Tensor out = value(x.detach());
  if (autograd::recording(x))
    autograd::record("scaled", out, {x}, [](const Tensor& grad) { return autograd::Gradients{grad}; });
  return out;
}

}  // namespace

Tensor std(const Tensor& x, const Dims& dims, std::int64_t correction, bool keep_dims) {
  if (traces()) return traced("std", x, dims, correction, keep_dims);
  expects<NumericError>(correction >= 0, "std: correction ", correction, ", expected at least 0");
  return compose("std", x, [&](const Tensor& wide) {
    const Shape shape = reduced_shape("std", wide, dims, keep_dims);
    if (wide.numel() == 0) return root(var(wide, dims, correction, keep_dims));
    const Tensor scale = scale_of(wide, dims);
    // Subtracts one of the elements, so that the variance of equal numbers is 0 however their mean is rounded.
    const Tensor origin = max(wide.detach(), dims, true);
    const Tensor small = scaled(wide, [&](const Tensor& part) { return sub(div(part, scale), div(origin, scale)); });
    return scaled(root(var(small, dims, correction, true)), [&](const Tensor& value) { return mul(value, scale); })
        .reshape(shape);
  });
}

namespace {

// (sum of |x|^order)^(1 / order), at a scale at which neither overflows.
Tensor power_norm(const Tensor& x, double order, const Dims& dims) {
  // For a negative order the smallest one dominates.
  const Tensor scale =
      order > 0 || x.numel() == 0 ? scale_of(x, dims) : power_of_two_near(min(abs(x.detach()), dims, true));
  const Tensor small = scaled(x, [&](const Tensor& part) { return div(part, scale); });
  const auto back = [&](const Tensor& part) {
    return scaled(part, [&](const Tensor& value) { return mul(value, scale); });
  };
  if (order == 2) return back(root(sum(square(small), dims, true)));
  const double of_zero = order > 0 ? 0 : infinity;
  const Tensor size = abs(small), nothing = equal(size, 0);
  const Tensor total = sum(replace(pow(replace(size, nothing, 1), order), nothing, of_zero), dims, true);
  const Tensor at_end = logical_or(equal(total, 0), equal(total, infinity));
  const Tensor ends = pow(total.detach(), 1 / order);
  return back(where(at_end, ends, pow(replace(total, at_end, 1), 1 / order)));
}

}  // namespace

Tensor norm(const Tensor& x, double order, const Dims& dims, bool keep_dims) {
  if (traces()) return traced("norm", x, order, dims, keep_dims);
  expects<NumericError>(!std::isnan(order), "norm: order NaN");
  return compose("norm", x, [&](const Tensor& wide) {
    const Shape shape = reduced_shape("norm", wide, dims, keep_dims);
    expects<ShapeError>(!std::isinf(order) || wide.numel() > 0 || element_count(shape) == 0,
                        "norm: no elements to choose from (input ", wide.shape(), ")");
    if (order == 0) {
      Tensor count = sum(not_equal(wide, 0).to(wide.dtype()), dims, keep_dims);
      if (recording(wide))
        record("norm", count, {wide},
               [full = wide.shape()](const Tensor& grad) { return Gradients{number_like(grad, 0).expand(full)}; });
      return count;
    }
    if (order == 1) return sum(abs(wide), dims, keep_dims);
    if (order == infinity) return max(abs(wide), dims, keep_dims);
    if (order == -infinity) return min(abs(wide), dims, keep_dims);
    return power_norm(wide, order, dims).reshape(shape);
  });
}

namespace {

// joined(elements 0 ... i along `place`), over 1, 2, 4, ... elements that end at each place. Not recorded as one
// operator.
template <class Join>
Tensor scanned(const Tensor& x, int place, Join join) {
  Tensor all = x;
  for (std::int64_t reach = 1, size = x.shape()[place]; reach < size; reach *= 2) {
    const Tensor further = join(all.slice(place, reach, size), all.slice(place, 0, size - reach));
    all = cat({all.slice(place, 0, reach), further}, place);
  }
  return all;
}

// scan(x, place) for x with at least one dimension, integers in int64.
template <class Scan>
Tensor scanned_along(const char* op, const Tensor& x, std::int64_t dim, std::optional<DType> dtype, Scan scan) {
  check_defined(op, "the input", x);
  const int place = dim_of(op, dim, x.rank());
  const Tensor numbers = x.to(dtype.value_or(is_floating(x.dtype()) ? x.dtype() : DType::int64));
  if (x.rank() == 0) return scan(numbers.reshape({1}), 0).reshape({});
  return scan(numbers, place);
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  if (traces()) return traced("cumsum", x, dim, dtype);
  return scanned_along("cumsum", x, dim, dtype, [](const Tensor& numbers, int place) {
    return in_scalars("cumsum", numbers, [place](const Tensor& wide) {
      Tensor sums = scanned(copy(wide.detach()), place, [](const Tensor& a, const Tensor& b) { return add(a, b); });
      if (recording(wide))
        record("cumsum", sums, {wide},
               [place](const Tensor& grad) { return Gradients{flip(cumsum(flip(grad, place), place), place)}; });
      return sums;
    });
  });
}

Tensor cumprod(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  if (traces()) return traced("cumprod", x, dim, dtype);
  return scanned_along("cumprod", x, dim, dtype, [](const Tensor& numbers, int place) {
    // Recorded product by product: dividing by the elements would turn a 0 into NaN.
    return in_scalars("cumprod", numbers, [place](const Tensor& wide) {
      return scanned(copy(wide), place, [](const Tensor& a, const Tensor& b) { return mul(a, b); });
    });
  });
}

Tensor logsumexp(const Tensor& x, const Dims& dims, bool keep_dims) {
  if (traces()) return traced("logsumexp", x, dims, keep_dims);
  return compose("logsumexp", x, [&](const Tensor& wide) {
    const Shape shape = reduced_shape("logsumexp", wide, dims, keep_dims);
    // An infinite maximum is not subtracted: the differences would be NaN.
    Tensor largest = number_like(wide, 0);
    if (wide.numel() > 0) {
      largest = max(wide.detach(), dims, true);
      largest = replace(largest, isinf(largest), 0);
    }
    const Tensor total = sum(exp(sub(wide, largest)), dims, true);
    const Tensor nothing = equal(total, 0);
    return add(replace(log(replace(total, nothing, 1)), nothing, -infinity), largest).reshape(shape);
  });
}

}  // namespace tern::operators
