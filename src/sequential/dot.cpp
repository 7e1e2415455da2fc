#include "functions.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::Linear;
using kernels::Matmul;

template <class T>
void matmul(Context&, T* out, const T* a, const T* b, const Matmul& shape) {
  const auto [batch, m, n, k, transpose_a, transpose_b, stride_a, stride_b] = shape;
  for (std::int64_t matrix = 0; matrix < batch; ++matrix)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;  // here and below: as in reduction.cpp
        for (std::int64_t p = 0; p < k; ++p)
          sum += double{load(a[matrix * stride_a + (transpose_a ? p * m + i : i * k + p)])} *
                 load(b[matrix * stride_b + (transpose_b ? j * k + p : p * n + j)]);
        out[(matrix * m + i) * n + j] = store<T>(sum);
      }
}

template <class T>
void linear(Context&, T* y, const T* x, const T* weight, const T* bias, const Linear& shape) {
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t o = 0; o < shape.out; ++o) {
      double sum = bias == nullptr ? 0 : double{load(bias[o])};
      for (std::int64_t i = 0; i < shape.in; ++i)
        sum += double{load(x[row * shape.in + i])} * load(weight[o * shape.in + i]);
      y[row * shape.out + o] = store<T>(activate(shape.activation, static_cast<Scalar<T>>(sum)));
    }
}

template <class T>
void linear_backward(Context&, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x, const T* weight,
                     const T* y, const Linear& shape) {
  const auto g = [&](std::int64_t row, std::int64_t o) -> double {
    return activate_gradient(shape.activation, grad_y, y, row * shape.out + o);
  };

  if (grad_x != nullptr)
    for (std::int64_t row = 0; row < shape.rows; ++row)
      for (std::int64_t i = 0; i < shape.in; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < shape.out; ++o) sum += g(row, o) * load(weight[o * shape.in + i]);
        grad_x[row * shape.in + i] = store<T>(sum);
      }

  if (grad_weight != nullptr)
    for (std::int64_t o = 0; o < shape.out; ++o)
      for (std::int64_t i = 0; i < shape.in; ++i) {
        double sum = 0;
        for (std::int64_t row = 0; row < shape.rows; ++row) sum += g(row, o) * load(x[row * shape.in + i]);
        grad_weight[o * shape.in + i] = store<T>(sum);
      }

  if (grad_bias != nullptr)
    for (std::int64_t o = 0; o < shape.out; ++o) {
      double sum = 0;
      for (std::int64_t row = 0; row < shape.rows; ++row) sum += g(row, o);
      grad_bias[o] = store<T>(sum);
    }
}

}  // namespace

template <class T>
kernels::Dot<T> dot() {
  return {.matmul = matmul<T>, .linear = linear<T>, .linear_backward = linear_backward<T>};
}
template kernels::Dot<float> dot<float>();
template kernels::Dot<double> dot<double>();
template kernels::Dot<BFloat16> dot<BFloat16>();
template kernels::Dot<Float16> dot<Float16>();

}  // namespace tern::sequential
