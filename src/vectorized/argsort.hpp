#pragma once
// Sorting of floating numbers and integers: one thread sorts a line.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tern/kernels/activation.hpp"
#include "vectorized/parallel.hpp"

namespace tern::vectorized {

template <class T>
void argsort(Context& context, std::int64_t* order, const T* in, const kernels::Axis& axis, bool descending) {
  const std::int64_t lines = axis.outer * axis.inner, length = axis.length;
  // If the elements of a line are not adjacent, neither are those of its order.
  const Scratch scratch(context, axis.inner == 1 ? 0 : static_cast<std::size_t>(lines * length) * sizeof(std::int64_t));
  constexpr double compared = 3;  // rough cost of a comparison in nanoseconds
  const double cost = compared * static_cast<double>(length) * std::log2(static_cast<double>(length) + 1);
  parallel_for(context, lines, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t start = line / axis.inner * length * axis.inner + line % axis.inner;
      std::int64_t* const own = axis.inner == 1 ? order + start : scratch.as<std::int64_t>() + line * length;
      const auto precedes = [&](std::int64_t i, std::int64_t j) {
        const T x = in[start + i * axis.inner], y = in[start + j * axis.inner];
        if (std::isnan(x) != std::isnan(y)) return std::isnan(y) != descending;
        return x == y || std::isnan(x) ? i < j : (x < y) != descending;
      };
      std::iota(own, own + length, std::int64_t{0});
      std::sort(own, own + length, precedes);
      if (axis.inner == 1) continue;
      for (std::int64_t j = 0; j < length; ++j) order[start + j * axis.inner] = own[j];
    }
  });
}

}  // namespace tern::vectorized
