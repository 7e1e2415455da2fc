#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

using tern::Dims;

/// Reduces the dimensions named, or all. With `keep_dims` the reduced dimensions stay, with size 1. An empty sum is 0,
/// an empty mean NaN. A sum of integers is int64.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);  ///< The sum over the number.
/// sum((x - mean)^2) / (n - correction); NaN when n <= correction. A negative correction is a NumericError.
Tensor var(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1, bool keep_dims = false);
/// The largest (smallest) element, of integers too; its gradient goes to the first one of equals, whatever is reduced
/// (torch.max over all elements shares it among them). Reducing no elements is a ShapeError.
Tensor max(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor min(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);  ///< See max.
/// The product, 1 of no elements; of integers int64. Neighbours are multiplied first, then neighbouring products.
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
/// Element i is the sum of the elements 0 ... i along `dim`; of integers int64.
Tensor cumsum(const Tensor& x, std::int64_t dim);
/// The position of the first largest element along `dim`, int64, no gradient; NaN counts as largest. Integers too.
Tensor argmax(const Tensor& x, std::int64_t dim = -1, bool keep_dims = false);
Tensor argmin(const Tensor& x, std::int64_t dim = -1, bool keep_dims = false);  ///< See argmax.

/// sqrt(var), also where the variance leaves the dtype's range; where it is 0 the derivative is 0.
Tensor std(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1, bool keep_dims = false);
/// (sum of |x|^order)^(1 / order) for order 1 and 2, max(|x|) for infinity; else a NumericError. Order 2 scales before
/// it squares, so that nothing leaves the range; its derivative at 0 is 0. 0 of no elements, but for infinity: a
/// ShapeError.
Tensor norm(const Tensor& x, double order = 2, const Dims& dims = {}, bool keep_dims = false);
/// log(sum(exp(x))), stable. Of -infinities alone it is -infinity, with a gradient of 0; so it is of no elements.
Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);

/// Whether any element (every one) is not 0, of any dtype: a bool tensor, no gradient. Of no elements false (true).
Tensor any(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor all(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);  ///< See any.

/// Sums `x` over the dimensions along which `shape` was broadcast to x's: the gradient of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace tern::operators
