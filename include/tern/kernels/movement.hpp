#pragma once

#include "tern/core/dtype.hpp"
#include "tern/kernels/arithmetic.hpp"

namespace tern::kernels {

/// `size` elements in each dimension, with element strides for both sides. The caller has merged neighbouring
/// dimensions; rank 0 means one element. No two output elements share a place.
struct Strided {
  int rank = 0;
  std::int64_t size[max_rank] = {};
  std::int64_t out[max_rank] = {};
  std::int64_t in[max_rank] = {};
  std::int64_t count = 1;  ///< the product of `size`

  using Members = MemberList<&Strided::rank, &Strided::size, &Strided::out, &Strided::in, &Strided::count>;
};

/// Moves elements of any dtype: a mode has one table of these for all dtypes.
struct Movement {
  /// Copies elements of `element` bytes (1, 2, 4 or 8) between strided arrays. `out` and `in` do not overlap.
  Kernel<void(Context&, void* out, const void* in, const Strided&, std::size_t element)> copy;
  /// Writes the `element` bytes at `value` (host memory, read before the call returns) n times.
  Kernel<void(Context&, void* out, std::int64_t n, const void* value, std::size_t element)> fill;
  /// out[i, :] = in[index[i], :], in rows of `row_bytes`. An index outside [0, in_rows) is reported like a bad label
  /// (kernels/loss.hpp), and its row is zeros.
  Kernel<void(Context&, void* out, const void* in, const std::int64_t* index, std::int64_t rows, std::int64_t in_rows,
              std::int64_t row_bytes)>
      gather;
  /// Converts n elements by the rules of core/convert.hpp: to an integer truncates toward zero and saturates (NaN: 0),
  /// also from a wider integer; to boolean is != 0; to a smaller float rounds to nearest even.
  Kernel<void(Context&, void* out, DType to, const void* in, DType from, std::int64_t n)> cast;

  using Members = MemberList<&Movement::copy, &Movement::fill, &Movement::gather, &Movement::cast>;
};

}  // namespace tern::kernels
