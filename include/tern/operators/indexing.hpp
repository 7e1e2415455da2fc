#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

// Indices are int64 or int32. An index out of range is a NumericError (on cuda: at the next wait). Values may have any
// dtype unless stated otherwise; floating ones have gradients. A rank-0 tensor accepts the dimensions 0 and -1, like a
// tensor of one element.

/// The slices of x along `dim` that `index` [n] selects, as torch.index_select.
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
/// result[i][j][k] = x[index[i][j][k]][j][k] for dim 0, and likewise for other dims, as torch.gather. index has the
/// rank of x and is no larger than x in any other dimension.
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// A copy of x with result[index[i][j][k]][j][k] = source[i][j][k] for dim 0, and likewise for other dims, as
/// torch.scatter. source has the shape of index, which is no larger than x in any other dimension. If several elements
/// go to one place, the last one wins. An index out of range is a NumericError on the host; cuda skips its element.
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// The same, but adds every element to what is there. Integers wrap around; booleans are combined by "or".
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// The elements of x where `mask` (bool, both broadcast) is true, as [n]. Waits for the device.
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// The positions of the nonzero elements (NaN counts as nonzero): int64 [n, rank], no gradient. Waits for the device.
Tensor nonzero(const Tensor& x);

// Sorting along a dimension. It is stable; NaN counts as largest. Any dtype.

/// Positions that sort x in ascending (descending) order: int64, no gradient.
Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
struct Sorted {
  Tensor values, indices;
};
/// The sorted elements and their original positions.
Sorted sort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// The k largest (smallest) elements in sorted order. Throws ShapeError if k exceeds the size.
Sorted topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);

}  // namespace tern::operators
