#pragma once

#include "tern/tensor/tensor.hpp"

namespace tern {

/// From the first to the last place of a view's elements in its storage.
struct Reach {
  std::int64_t before = 0;  ///< places before the view's first element
  std::int64_t count = 0;   ///< total number; 0 without elements
};
inline Reach reach_of(const Tensor& view) {
  if (view.numel() == 0) return {};
  std::int64_t before = 0, behind = 0;
  for (int i = 0; i < view.rank(); ++i)
    (view.strides()[i] < 0 ? before : behind) += (view.shape()[i] - 1) * view.strides()[i];
  return {-before, behind - before + 1};
}

/// Calls visit(place) for the first `count` elements of a view in row-major order; places are relative to the first
/// element.
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
