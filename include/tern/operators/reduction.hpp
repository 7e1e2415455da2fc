#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

/// Dimensions to reduce, negative ones counted from the end; empty means all.
using Dims = std::vector<std::int64_t>;

/// With `keep_dims` the reduced dimensions stay, with size 1. An empty sum is 0, an empty mean NaN.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
/// sum((x - mean)^2) / (n - correction); NaN when n <= correction. A negative correction is a NumericError.
Tensor var(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1, bool keep_dims = false);
/// The largest (smallest) element; its gradient goes to the first one of equals, whatever is reduced (torch.max over
/// all elements shares it among them). Reducing no elements is a ShapeError.
Tensor max(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
Tensor min(const Tensor& x, const Dims& dims = {}, bool keep_dims = false);
/// The position of the first largest element along `dim`, int64, no gradient; NaN counts as largest.
Tensor argmax(const Tensor& x, std::int64_t dim = -1, bool keep_dims = false);
Tensor argmin(const Tensor& x, std::int64_t dim = -1, bool keep_dims = false);

/// Sums `x` over the dimensions along which `shape` was broadcast to x's: the gradient of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace tern::operators
