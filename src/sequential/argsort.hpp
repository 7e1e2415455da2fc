#pragma once
// Sorting of floating numbers and integers.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "loops.hpp"

namespace tern::sequential {

/// Whether x comes before y in sorted order; `first` breaks ties. NaN counts as largest.
template <class T>
bool precedes(T x, T y, bool first, bool descending) {
  if (std::isnan(x) != std::isnan(y)) return std::isnan(y) != descending;
  return x == y || std::isnan(x) ? first : (x < y) != descending;
}

template <class T>
void argsort(Context& context, std::int64_t* order, const T* in, const kernels::Axis& axis, bool descending) {
  const Scratch scratch(context, static_cast<std::size_t>(axis.length) * sizeof(std::int64_t));
  std::int64_t* const line_order = scratch.as<std::int64_t>();
  for_each_line(axis, [&](std::int64_t, std::int64_t start) {
    std::iota(line_order, line_order + axis.length, std::int64_t{0});
    // No two positions are equal, so a stable sort needs no extra memory.
    std::sort(line_order, line_order + axis.length, [&](std::int64_t i, std::int64_t j) {
      return precedes(load(in[start + i * axis.inner]), load(in[start + j * axis.inner]), i < j, descending);
    });
    for (std::int64_t j = 0; j < axis.length; ++j) order[start + j * axis.inner] = line_order[j];
  });
}

}  // namespace tern::sequential
