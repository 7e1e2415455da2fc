#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

// Indices are int64 or int32. One out of range is a NumericError (on cuda: at the next wait). Values of any dtype
// unless said otherwise; gradients where they are floating. A number, of no dimensions, has the dimensions 0 and -1 as
// one of a single element would.

/// The parts of x along `dim` that `index` [n] names, as torch.index_select.
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
/// result[i][j][k] = x[index[i][j][k]][j][k] for dim 0, and likewise for others, as torch.gather: index has the rank of
/// x and is no larger in any other dimension.
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// A copy of x with result[index[i][j][k]][j][k] = source[i][j][k] for dim 0, and likewise for others, as
/// torch.scatter: source has the shape of index, which is no larger than x in any other dimension. Of several for one
/// place the last counts. An index out of range is a NumericError on the host; on cuda its element is left out.
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// The same, but added to what is there, all of them; integers wrap around, of booleans one that is true is enough.
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// The elements of x where `mask` (bool, both broadcast) holds, [n]: waits for the device.
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// The positions of the elements that are not 0 (NaN is not): int64 [n, rank], no gradient. Waits for the device.
Tensor nonzero(const Tensor& x);

// Order along a dimension. Equal elements keep theirs, NaN counts as largest. Any dtype.

/// Positions that bring x into ascending (descending) order: int64, no gradient.
Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
struct Sorted {
  Tensor values, indices;
};
/// The elements in order, and where they were.
Sorted sort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// The k largest (smallest) elements, the first of them first. k beyond the size is a ShapeError.
Sorted topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);

}  // namespace tern::operators
