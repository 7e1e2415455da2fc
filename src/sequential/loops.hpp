#pragma once
// Loops that several families of this mode share.

#include <algorithm>
#include <array>
#include <cstdint>

#include "functions.hpp"
#include "tern/kernels/arithmetic.hpp"

namespace tern::sequential {

/// out[i] = function(in[i]...) for n elements of each array.
template <class T, class Function, class... In>
void map(T* out, std::int64_t n, Function function, const In*... in) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = store<T>(function(load(in[i])...));
}

/// Slots that are one function of each element, and their gradients, which read the input or the output.
template <auto function, class T>
void unary(Context&, T* out, const T* in, std::int64_t n) {
  map(out, n, function, in);
}
template <auto function, class T>
void unary_backward(Context&, T* grad_in, const T* grad_out, const T* saved, std::int64_t n) {
  map(grad_in, n, function, grad_out, saved);
}

/// n sums, initially zero, to which elements are added in any order; each is rounded once, at the end.
template <class Sum>
class Sums {
 public:
  Sums(Context& context, std::int64_t n)
      : n_(n), scratch_(context, static_cast<std::size_t>(n) * sizeof(Sum)), sums_(scratch_.as<Sum>()) {
    std::fill_n(sums_, n, Sum(0));
  }
  Sum& operator[](std::int64_t i) { return sums_[i]; }
  template <class T>
  void round_to(T* out) const {
    for (std::int64_t i = 0; i < n_; ++i) out[i] = store<T>(sums_[i]);
  }

 private:
  std::int64_t n_;
  Scratch scratch_;
  Sum* sums_;
};

/// A position in an array of up to max_rank dimensions.
using Index = std::array<std::int64_t, kernels::max_rank>;

/// Calls visit(i, index) for the i-th element of an array of `size` in row-major order: the last dimension is fastest.
template <class Visit>
void for_each_index(int rank, const std::int64_t* size, std::int64_t count, Visit visit) {
  Index index{};
  for (std::int64_t i = 0; i < count; ++i) {
    visit(i, index);
    for (int d = rank - 1; d >= 0 && ++index[d] == size[d]; --d) index[d] = 0;
  }
}

/// The offset of the element at `index` in an array with element strides.
inline std::int64_t offset(int rank, const Index& index, const std::int64_t* stride) {
  std::int64_t sum = 0;
  for (int d = 0; d < rank; ++d) sum += index[d] * stride[d];
  return sum;
}

/// The slot `where` of every table.
template <class T>
void where(Context&, T* out, const T* a, const T* b, const bool* condition, const kernels::Broadcast& shape) {
  for_each_index(shape.rank, shape.size, shape.count, [&](std::int64_t i, const Index& index) {
    out[i] = condition[offset(shape.rank, index, shape.stride[2])] ? a[offset(shape.rank, index, shape.stride[0])]
                                                                   : b[offset(shape.rank, index, shape.stride[1])];
  });
}

/// Calls visit(line, start) for every line along `length`: its elements are start + j * axis.inner, and `line` counts
/// lines in row-major order.
template <class Visit>
void for_each_line(const kernels::Axis& axis, Visit visit) {
  for (std::int64_t outer = 0; outer < axis.outer; ++outer)
    for (std::int64_t inner = 0; inner < axis.inner; ++inner)
      visit(outer * axis.inner + inner, outer * axis.length * axis.inner + inner);
}

}  // namespace tern::sequential
