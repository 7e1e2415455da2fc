#pragma once

#include <optional>

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

using tern::Dims;

// A rank-0 tensor accepts the dimensions 0 and -1, like a tensor of one element.
/// Reduces the named dimensions, or all. With `keep_dims` the reduced dimensions stay with size 1. An empty sum is 0,
/// an empty mean NaN. A sum of integers is int64. With `dtype`, x is converted to it first.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keep_dims = false, std::optional<DType> dtype = {});
/// The sum divided by the number of elements.
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keep_dims = false, std::optional<DType> dtype = {});
/// sum((x - mean)^2) / (n - correction); NaN if n <= correction. Throws NumericError for a negative correction.
Tensor var(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1, bool keep_dims = false);
/// The largest (smallest) element; integers too. The gradient goes to the first of equal elements, whatever is reduced
/// (torch.max over all elements divides it among them). Throws ShapeError for no elements.
Tensor max(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor min(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);  ///< See max.
/// The product; 1 for no elements; int64 for integers. Neighbours are multiplied first, then neighbouring products.
/// With `dtype`, x is converted to it first.
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keep_dims = false, std::optional<DType> dtype = {});
/// Element i is the sum of the elements 0 ... i along `dim`; int64 for integers. With `dtype`, x is converted to it
/// first.
Tensor cumsum(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});
/// The same for products.
Tensor cumprod(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});
/// The position of the first largest element along `dim`, int64, no gradient; NaN counts as largest. Integers too.
Tensor argmax(const Tensor& x, std::int64_t dim = -1, bool keep_dims = false);
Tensor argmin(const Tensor& x, std::int64_t dim = -1, bool keep_dims = false);  ///< See argmax.

/// sqrt(var), also if the variance leaves the dtype's range. For equal numbers it is 0 with derivative 0.
Tensor std(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1, bool keep_dims = false);
/// (sum of |x|^order)^(1 / order); max(|x|) for infinity, min(|x|) for -infinity, the number of nonzero elements for 0;
/// NaN is a NumericError. Elements are scaled before they are raised, so nothing overflows. The derivative is 0 where x
/// or the norm is 0. Without elements the norm is 0, or infinity for negative orders; the infinite orders throw
/// ShapeError.
Tensor norm(const Tensor& x, double order = 2, const Dims& dims = {}, bool keep_dims = false);
/// log(sum(exp(x))), stable. For -infinity alone it is -infinity, with a gradient of 0; likewise for no elements.
Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);

/// Whether any (every) element is nonzero, for any dtype. The result is bool, with no gradient; false (true) for no
/// elements.
Tensor any(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor all(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);  ///< See any.

/// Sums `x` over the dimensions along which `shape` was broadcast: the gradient of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace tern::operators
