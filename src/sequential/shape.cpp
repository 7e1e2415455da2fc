#include <algorithm>

#include "sequential.hpp"

namespace tern::sequential {
namespace {

template <class T>
void gather_backward(Context&, T* grad_in, const T* grad_out, const std::int64_t* index, std::int64_t rows,
                     std::int64_t in_rows, std::int64_t columns) {
  std::fill_n(grad_in, in_rows * columns, T(0));
  for (std::int64_t row = 0; row < rows; ++row) {
    if (index[row] < 0 || index[row] >= in_rows) continue;
    for (std::int64_t column = 0; column < columns; ++column)
      grad_in[index[row] * columns + column] += grad_out[row * columns + column];
  }
}

template <class T>
void one_hot(Context&, T* out, const std::int64_t* labels, std::int64_t rows, std::int64_t classes) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t c = 0; c < classes; ++c) out[row * classes + c] = c == labels[row] ? T(1) : T(0);
}

template <class T>
void dropout(Context&, T* out, const T* in, std::int64_t n, double probability, const random::Key& key) {
  const std::uint64_t offset = key.offset + (key.base != nullptr ? *key.base : 0);
  for (std::int64_t i = 0; i < n; ++i) {
    const bool keep = random::uniform(random::word(key.seed, offset, static_cast<std::uint64_t>(i))) >= probability;
    out[i] = keep ? in[i] / static_cast<T>(1 - probability) : T(0);
  }
}

}  // namespace

template <class T>
kernels::Shape<T> shape() {
  return {.gather_backward = gather_backward<T>, .one_hot = one_hot<T>, .dropout = dropout<T>};
}
template kernels::Shape<float> shape<float>();
template kernels::Shape<double> shape<double>();

}  // namespace tern::sequential
