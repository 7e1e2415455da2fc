#include <cmath>

#include "functions.hpp"
#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::Broadcast;

/// out[i] = function(a, b) at every position of the broadcast shape.
template <auto function, class T, class Out = T>
void binary(Context&, Out* out, const T* a, const T* b, const Broadcast& shape) {
  for_each_index(shape.rank, shape.size, shape.count, [&](std::int64_t i, const Index& index) {
    const T x = a[offset(shape.rank, index, shape.stride[0])], y = b[offset(shape.rank, index, shape.stride[1])];
    out[i] = store<Out>(function(load(x), load(y)));
  });
}

template <class T>
void mul_add(Context&, T* out, const T* a, const T* b, const T* c, const Broadcast& shape) {
  for_each_index(shape.rank, shape.size, shape.count, [&](std::int64_t i, const Index& index) {
    const auto at = [&](const T* from, int input) {
      return load(from[offset(shape.rank, index, shape.stride[input])]);
    };
    out[i] = store<T>(at(a, 0) * at(b, 1) + at(c, 2));
  });
}

template <class T>
void pow(Context&, T* out, const T* in, std::int64_t n, Scalar<T> exponent) {
  map(
      out, n, [=](Scalar<T> x) { return std::pow(x, exponent); }, in);
}

template <class T>
void clamp(Context&, T* out, const T* in, std::int64_t n, Scalar<T> low, Scalar<T> high) {
  map(
      out, n, [=](Scalar<T> x) { return smaller(larger(x, low), high); }, in);
}

template <class T>
void affine(Context&, T* out, const T* in, std::int64_t n, Scalar<T> scale, Scalar<T> shift) {
  map(
      out, n, [=](Scalar<T> x) { return scale * x + shift; }, in);
}

template <class T>
void add_all(Context&, T* out, const T* a, const T* b, const T* c, const T* d, const T* e, const T* f, const T* g,
             const T* h, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    Scalar<T> sum = load(a[i]) + load(b[i]);
    for (const T* more : {c, d, e, f, g, h})
      if (more != nullptr) sum += load(more[i]);
    out[i] = store<T>(sum);
  }
}

template <class T>
T abs_gradient(T grad, T x) {
  return grad * (x > 0 ? T(1) : x < 0 ? T(-1) : x);  // the sign of 0 is 0, of NaN it is NaN
}

template <class T>
void pow_backward(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n, Scalar<T> exponent) {
  const auto gradient = [=](Scalar<T> grad, Scalar<T> x) {
    return exponent == 0 ? 0 : grad * exponent * std::pow(x, exponent - 1);
  };
  map(grad_in, n, gradient, grad_out, in);
}

template <class T>
void clamp_backward(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n, Scalar<T> low,
                    Scalar<T> high) {
  map(
      grad_in, n, [=](Scalar<T> grad, Scalar<T> x) { return low <= x && x <= high ? grad : 0; }, grad_out, in);
}

/// Divides grad_out between two inputs. If one is NaN, neither loses, and both get it, as in PyTorch.
template <auto loses, class T>
void select_backward(Context&, T* grad_a, T* grad_b, const T* grad_out, const T* a, const T* b,
                     const Broadcast& shape) {
  for_each_index(shape.rank, shape.size, shape.count, [&](std::int64_t i, const Index& index) {
    const Scalar<T> x = load(a[offset(shape.rank, index, shape.stride[0])]);
    const Scalar<T> y = load(b[offset(shape.rank, index, shape.stride[1])]);
    const Scalar<T> share = x == y ? load(grad_out[i]) / 2 : load(grad_out[i]);
    grad_a[i] = store<T>(loses(x, y) ? 0 : share);
    grad_b[i] = store<T>(loses(y, x) ? 0 : share);
  });
}

}  // namespace

template <class T>
kernels::Arithmetic<T> arithmetic() {
  using S = Scalar<T>;
  return {.add = binary<[](S x, S y) { return x + y; }, T>,
          .sub = binary<[](S x, S y) { return x - y; }, T>,
          .mul = binary<[](S x, S y) { return x * y; }, T>,
          .div = binary<[](S x, S y) { return x / y; }, T>,
          .maximum = binary<larger<S>, T>,
          .minimum = binary<smaller<S>, T>,
          .power = binary<[](S x, S y) { return std::pow(x, y); }, T>,
          .fmod = binary<[](S x, S y) { return std::fmod(x, y); }, T>,
          .equal = binary<[](S x, S y) { return x == y; }, T, bool>,
          .not_equal = binary<[](S x, S y) { return x != y; }, T, bool>,
          .less = binary<[](S x, S y) { return x < y; }, T, bool>,
          .less_equal = binary<[](S x, S y) { return x <= y; }, T, bool>,
          .greater = binary<[](S x, S y) { return y < x; }, T, bool>,
          .greater_equal = binary<[](S x, S y) { return y <= x; }, T, bool>,
          .where = where<T>,
          .mul_add = mul_add<T>,
          .neg = unary<[](S x) { return -x; }, T>,
          .exp = unary<[](S x) { return std::exp(x); }, T>,
          .log = unary<[](S x) { return std::log(x); }, T>,
          .sqrt = unary<[](S x) { return std::sqrt(x); }, T>,
          .abs = unary<[](S x) { return std::abs(x); }, T>,
          .sin = unary<[](S x) { return std::sin(x); }, T>,
          .cos = unary<[](S x) { return std::cos(x); }, T>,
          .erf = unary<[](S x) { return std::erf(x); }, T>,
          .floor = unary<[](S x) { return std::floor(x); }, T>,
          .ceil = unary<[](S x) { return std::ceil(x); }, T>,
          .round = unary<[](S x) { return std::nearbyint(x); }, T>,
          .pow = pow<T>,
          .clamp = clamp<T>,
          .affine = affine<T>,
          .add_all = add_all<T>,
          .sqrt_backward = unary_backward<[](S grad, S y) { return grad / (2 * y); }, T>,
          .abs_backward = unary_backward<abs_gradient<S>, T>,
          .pow_backward = pow_backward<T>,
          .clamp_backward = clamp_backward<T>,
          .maximum_backward = select_backward<[](S x, S y) { return x < y; }, T>,
          .minimum_backward = select_backward<[](S x, S y) { return y < x; }, T>};
}
template kernels::Arithmetic<float> arithmetic<float>();
template kernels::Arithmetic<double> arithmetic<double>();
template kernels::Arithmetic<BFloat16> arithmetic<BFloat16>();
template kernels::Arithmetic<Float16> arithmetic<Float16>();

}  // namespace tern::sequential
