#include "argsort.hpp"
#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

template <class T>
void gather_backward(Context& context, T* grad_in, const T* grad_out, const std::int64_t* index, std::int64_t rows,
                     std::int64_t in_rows, std::int64_t columns) {
  Sums<Scalar<T>> sums(context, in_rows * columns);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (index[row] < 0 || index[row] >= in_rows) continue;
    for (std::int64_t column = 0; column < columns; ++column)
      sums[index[row] * columns + column] += load(grad_out[row * columns + column]);
  }
  sums.round_to(grad_in);
}

template <class T>
void one_hot(Context&, T* out, const std::int64_t* labels, std::int64_t rows, std::int64_t classes) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t c = 0; c < classes; ++c) out[row * classes + c] = store<T>(c == labels[row]);
}

template <class T>
void dropout(Context&, T* out, const T* in, std::int64_t n, double probability, const random::Key& key) {
  const std::uint64_t offset = key.offset + (key.base != nullptr ? *key.base : 0);
  for (std::int64_t i = 0; i < n; ++i) {
    const bool keep = random::uniform(random::word(key.seed, offset, static_cast<std::uint64_t>(i))) >= probability;
    out[i] = store<T>(keep ? load(in[i]) / static_cast<Scalar<T>>(1 - probability) : 0);
  }
}

}  // namespace

template <class T>
kernels::Shape<T> shape() {
  return {.gather_backward = gather_backward<T>, .argsort = argsort<T>, .one_hot = one_hot<T>, .dropout = dropout<T>};
}
template kernels::Shape<float> shape<float>();
template kernels::Shape<double> shape<double>();
template kernels::Shape<BFloat16> shape<BFloat16>();
template kernels::Shape<Float16> shape<Float16>();

}  // namespace tern::sequential
