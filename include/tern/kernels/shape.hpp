#pragma once

#include "tern/core/random.hpp"
#include "tern/kernels/activation.hpp"

namespace tern::kernels {

/// Indexing, sorting and dropout: the typed half of a family whose dtype-free half is Movement.
template <class T>
struct Shape {
  /// Overwrites grad_in [in_rows, columns]: row r is the sum of the rows i of grad_out [rows, columns] with index[i] =
  /// r, added in increasing i.
  Kernel<void(Context&, T* grad_in, const T* grad_out, const std::int64_t* index, std::int64_t rows,
              std::int64_t in_rows, std::int64_t columns)>
      gather_backward;
  /// order[o, j, i] is the position along `length` of the element that is j-th in ascending (descending) order. The
  /// sort is stable; -0 equals 0; NaN counts as largest.
  Kernel<void(Context&, std::int64_t* order, const T* in, const Axis&, bool descending)> argsort;
  /// out is [rows, classes]: 1 at the label, else 0. A bad label is reported as in kernels/loss.hpp; its row is zeros.
  Kernel<void(Context&, T* out, const std::int64_t* labels, std::int64_t rows, std::int64_t classes)> one_hot;
  /// out = uniform(word i) >= probability ? in / (1 - probability) : 0, with the words of the stream `key`
  /// (core/random.hpp). It is its own backward: call it on the gradient with the same key. probability in [0, 1].
  Kernel<void(Context&, T* out, const T* in, std::int64_t n, double probability, const random::Key& key)> dropout;

  using Members = MemberList<&Shape::gather_backward, &Shape::argsort, &Shape::one_hot, &Shape::dropout>;
};

}  // namespace tern::kernels
