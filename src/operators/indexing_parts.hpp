#pragma once
// What indexing and scattering share (composed_indexing.cpp).

#include "operators/composed.hpp"

namespace tern::operators {

/// An index of int32 or int64, as int64.
Tensor checked_index(const char* op, const Tensor& index);
/// The positions of x[..., index[i][j][k], ...] along `dim` among the elements of a tensor of `shape`: int64
/// [index.numel()].
Tensor places_of(const char* op, const Shape& shape, std::int64_t dim, const Tensor& index);
inline Tensor as_rows(const Tensor& x) { return x.reshape({x.numel(), 1}); }
/// Throws unless x and source have one dtype, and source and index one shape.
void check_source(const char* op, const Tensor& x, const Tensor& index, const Tensor& source);

/// Sorted places, equal ones adjacent.
struct Runs {
  Tensor order;        ///< the original position of each sorted place
  Tensor places;       ///< non-decreasing
  Tensor first, last;  ///< float64: 1 where a run of equal places begins, and ends
};
Runs runs_of(const char* op, const Tensor& places);

}  // namespace tern::operators
