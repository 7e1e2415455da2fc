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
          sum += double{a[matrix * stride_a + (transpose_a ? p * m + i : i * k + p)]} *
                 b[matrix * stride_b + (transpose_b ? j * k + p : p * n + j)];
        out[(matrix * m + i) * n + j] = static_cast<T>(sum);
      }
}

template <class T>
void linear(Context&, T* y, const T* x, const T* weight, const T* bias, const Linear& shape) {
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t o = 0; o < shape.out; ++o) {
      double sum = bias == nullptr ? 0 : double{bias[o]};
      for (std::int64_t i = 0; i < shape.in; ++i) sum += double{x[row * shape.in + i]} * weight[o * shape.in + i];
      y[row * shape.out + o] = activate(shape.activation, static_cast<T>(sum));
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
        for (std::int64_t o = 0; o < shape.out; ++o) sum += g(row, o) * weight[o * shape.in + i];
        grad_x[row * shape.in + i] = static_cast<T>(sum);
      }

  if (grad_weight != nullptr)
    for (std::int64_t o = 0; o < shape.out; ++o)
      for (std::int64_t i = 0; i < shape.in; ++i) {
        double sum = 0;
        for (std::int64_t row = 0; row < shape.rows; ++row) sum += g(row, o) * x[row * shape.in + i];
        grad_weight[o * shape.in + i] = static_cast<T>(sum);
      }

  if (grad_bias != nullptr)
    for (std::int64_t o = 0; o < shape.out; ++o) {
      double sum = 0;
      for (std::int64_t row = 0; row < shape.rows; ++row) sum += g(row, o);
      grad_bias[o] = static_cast<T>(sum);
    }
}

}  // namespace

template <class T>
kernels::Dot<T> dot() {
  return {.matmul = matmul<T>, .linear = linear<T>, .linear_backward = linear_backward<T>};
}
template kernels::Dot<float> dot<float>();
template kernels::Dot<double> dot<double>();

}  // namespace tern::sequential
