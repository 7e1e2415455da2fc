#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern {

/// Calls visit(place) with where each of the first `count` elements of a view stands in row-major order, relative to
/// its first one.
template <class Visit>
void for_each_place(const Tensor& view, std::int64_t count, Visit visit) {
  Shape index = Shape::filled(view.rank(), 0);
  std::int64_t place = 0;
  for (; count > 0; --count) {
    visit(place);
    for (int i = view.rank() - 1; i >= 0; --i) {
      place += view.strides()[i];
      if (++index[i] < view.shape()[i]) break;
      place -= index[i] * view.strides()[i];
      index[i] = 0;
    }
  }
}

}  // namespace tern
