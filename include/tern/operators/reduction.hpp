#pragma once

#include <optional>

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

using tern::Dims;

// A number, of no dimensions, has the dimensions 0 and -1 as one of a single element would.
/// Reduces the dimensions named, or all. With `keep_dims` the reduced dimensions stay, with size 1. An empty sum is 0,
/// an empty mean NaN. A sum of integers is int64. With `dtype`, x is converted to it first.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keep_dims = false, std::optional<DType> dtype = {});
/// The sum over the number.
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keep_dims = false, std::optional<DType> dtype = {});
/// sum((x - mean)^2) / (n - correction); NaN when n <= correction. A negative correction is a NumericError.
Tensor var(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1, bool keep_dims = false);
/// The largest (smallest) element, of integers too; its gradient goes to the first one of equals, whatever is reduced
/// (torch.max over all elements shares it among them). Reducing no elements is a ShapeError.
Tensor max(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor min(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);  ///< See max.
/// The product, 1 of no elements; of integers int64. Neighbours are multiplied first, then neighbouring products. With
/// `dtype`, x is converted to it first.
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keep_dims = false, std::optional<DType> dtype = {});
/// Element i is the sum of the elements 0 ... i along `dim`; of integers int64. With `dtype`, x is converted to it
/// first.
Tensor cumsum(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});
/// The same with products.
Tensor cumprod(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});
/// The position of the first largest element along `dim`, int64, no gradient; NaN counts as largest. Integers too.
Tensor argmax(const Tensor& x, std::int64_t dim = -1, bool keep_dims = false);
Tensor argmin(const Tensor& x, std::int64_t dim = -1, bool keep_dims = false);  ///< See argmax.

/// sqrt(var), also where the variance leaves the dtype's range; 0 of equal numbers, where the derivative is 0.
Tensor std(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1, bool keep_dims = false);
/// (sum of |x|^order)^(1 / order), max(|x|) for infinity, min(|x|) for -infinity, the number of elements that are not 0
/// for 0; NaN is a NumericError. Elements are scaled before they are raised, so that nothing leaves the range; where x
/// or the norm is 0 the derivative is 0. Of no elements 0, infinity for negative orders; but for the infinite ones: a
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
