// Reductions without a slot of their own.

#include <algorithm>
#include <cmath>
#include <limits>

#include "operators/composed.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// 1 where x is not 0, else 0: sums of these say what holds of any or of all, also of none. A sum of ones that loses
// count is still not 0.
Tensor truths(const char* op, const Tensor& x) {
  check_defined(op, "the input", x);
  return x.detach().to(DType::boolean).to(DType::float32);
}

// Whether dimension i of `rank` is one of `dims`.
bool reduces(const char* op, const Dims& dims, int i, int rank) {
  return dims.empty() || std::ranges::any_of(dims, [&](std::int64_t dim) { return normalize_dim(op, dim, rank) == i; });
}

// The square root, whose derivative at 0 is 0.
Tensor root(const Tensor& x) {
  const Tensor at_zero = equal(x, 0);
  return replace(sqrt(replace(x, at_zero, 1)), at_zero, 0);
}

// The largest magnitude along `dims`, kept, or 1 where that is 0 or not finite; 1 where there is none. No gradient.
Tensor scale_of(const Tensor& x, const Dims& dims) {
  if (x.numel() == 0) return number_like(x, 1);
  const Tensor largest = max(abs(x.detach()), dims, true), one = number_like(x, 1);
  return where(greater(largest, 0), where(less(largest, infinity), largest, one), one);
}

}  // namespace

Tensor any(const Tensor& x, const Dims& dims, bool keep_dims) {
  return greater(sum(truths("any", x), dims, keep_dims), 0);
}

Tensor all(const Tensor& x, const Dims& dims, bool keep_dims) {
  return equal(sum(sub(1, truths("all", x)), dims, keep_dims), 0);
}

Tensor std(const Tensor& x, const Dims& dims, std::int64_t correction, bool keep_dims) {
  expects<NumericError>(correction >= 0, "std: correction ", correction, ", expected at least 0");
  return compose("std", x, [&](const Tensor& wide) {
    const Tensor scale = scale_of(wide, dims), kept = mul(root(var(div(wide, scale), dims, correction, true)), scale);
    return keep_dims ? kept : kept.reshape(sum(wide.detach(), dims).shape());
  });
}

Tensor norm(const Tensor& x, double order, const Dims& dims, bool keep_dims) {
  expects<NumericError>(order == 1 || order == 2 || order == infinity, "norm: order ", order,
                        ", expected 1, 2 or infinity");
  return compose("norm", x, [&](const Tensor& wide) {
    if (order == 1) return sum(abs(wide), dims, keep_dims);
    if (order == infinity) return max(abs(wide), dims, keep_dims);
    // Squares of numbers up to 1 stay inside the range. The scale cancels, so it has no part in the gradient.
    const Tensor scale = scale_of(wide, dims);
    const Tensor scaled = root(sum(square(div(wide, scale)), dims, true));
    const Tensor kept = mul(scaled, scale);
    return keep_dims ? kept : kept.reshape(sum(wide.detach(), dims).shape());
  });
}

namespace {

// The product along one dimension, which is kept.
Tensor product_along(const Tensor& x, int dim) {
  std::int64_t size = x.shape()[dim];
  if (size == 0) return add(sum(x, dim, true), 1);
  Tensor left = x;
  for (; size > 1; size = size / 2 + size % 2) {
    const Tensor pairs = mul(left.slice(dim, 0, size - size % 2, 2), left.slice(dim, 1, size, 2));
    left = size % 2 == 0 ? pairs : cat({pairs, left.slice(dim, size - 1, size)}, dim);
  }
  return left;
}

}  // namespace

Tensor prod(const Tensor& x, const Dims& dims, bool keep_dims) {
  return compose("prod", x, [&](const Tensor& wide) {
    const Shape shape = sum(wide.detach(), dims, keep_dims).shape();  // which checks the dimensions
    Tensor left = wide;
    for (int i = 0; i < wide.rank(); ++i)
      if (reduces("prod", dims, i, wide.rank())) left = product_along(left, i);
    return left.reshape(shape);
  });
}

Tensor cumsum(const Tensor& x, std::int64_t dim) {
  check_defined("cumsum", "the input", x);
  const int place = normalize_dim("cumsum", dim, x.rank());
  return compose("cumsum", x, [place](const Tensor& wide) {
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
