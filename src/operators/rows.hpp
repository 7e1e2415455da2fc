#pragma once
// Gathering rows by index, and adding rows to where they belong: each is the gradient of the other. All indexing is
// built on them.

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

/// result [i, ...] = x[index[i], ...], index [n] int64. Any dtype; an index out of range is a NumericError that begins
/// with `op` (on cuda: at the next wait).
Tensor rows_at(const char* op, const Tensor& x, const Tensor& index);
/// result [out_rows, ...]: row j is the sum of the rows i of x with index[i] = j, added in increasing i. Floating
/// dtypes; on cuda a row whose index is out of range is skipped.
Tensor add_rows(const char* op, const Tensor& x, const Tensor& index, std::int64_t out_rows);

}  // namespace tern::operators
