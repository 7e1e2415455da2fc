#include <cmath>

#include "functions.hpp"
#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::Broadcast;

/// out[i] = function(a, b) at every position of the broadcast shape.
template <class Out, class T, class Function>
void binary(Out* out, const T* a, const T* b, const Broadcast& shape, Function function) {
  for_each_index(shape.rank, shape.size, shape.count, [&](std::int64_t i, const Index& index) {
    const T x = a[offset(shape.rank, index, shape.stride[0])], y = b[offset(shape.rank, index, shape.stride[1])];
    out[i] = store<Out>(function(load(x), load(y)));
  });
}

template <class T>
void add(Context&, T* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x + y; });
}

template <class T>
void sub(Context&, T* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x - y; });
}

template <class T>
void mul(Context&, T* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x * y; });
}

template <class T>
void div(Context&, T* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x / y; });
}

template <class T>
void maximum(Context&, T* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return larger(x, y); });
}

template <class T>
void minimum(Context&, T* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return smaller(x, y); });
}

template <class T>
void power(Context&, T* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return std::pow(x, y); });
}

template <class T>
void fmod(Context&, T* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return std::fmod(x, y); });
}

template <class T>
void equal(Context&, bool* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x == y; });
}

template <class T>
void not_equal(Context&, bool* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x != y; });
}

template <class T>
void less(Context&, bool* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x < y; });
}

template <class T>
void less_equal(Context&, bool* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x <= y; });
}

template <class T>
void greater(Context&, bool* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x > y; });
}

template <class T>
void greater_equal(Context&, bool* out, const T* a, const T* b, const Broadcast& shape) {
  binary(out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x >= y; });
}

template <class T>
void neg(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return -x; }, in);
}

template <class T>
void exp(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return std::exp(x); }, in);
}

template <class T>
void log(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return std::log(x); }, in);
}

template <class T>
void sqrt(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return std::sqrt(x); }, in);
}

template <class T>
void abs(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return std::abs(x); }, in);
}

template <class T>
void sin(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return std::sin(x); }, in);
}

template <class T>
void cos(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return std::cos(x); }, in);
}

template <class T>
void erf(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return std::erf(x); }, in);
}

template <class T>
void floor(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return std::floor(x); }, in);
}

template <class T>
void ceil(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return std::ceil(x); }, in);
}

template <class T>
void round(Context&, T* out, const T* in, std::int64_t n) {
  map(
      out, n, [](Scalar<T> x) { return std::nearbyint(x); }, in);
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
void add_all(Context&, T* out, const T* a, const T* b, const T* c, const T* d, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    Scalar<T> sum = load(a[i]) + load(b[i]);
    if (c != nullptr) sum += load(c[i]);
    if (d != nullptr) sum += load(d[i]);
    out[i] = store<T>(sum);
  }
}

template <class T>
void sqrt_backward(Context&, T* grad_in, const T* grad_out, const T* out, std::int64_t n) {
  map(
      grad_in, n, [](Scalar<T> grad, Scalar<T> y) { return grad / (2 * y); }, grad_out, out);
}

template <class T>
void abs_backward(Context&, T* grad_in, const T* grad_out, const T* in, std::int64_t n) {
  // The sign of 0 is 0, of NaN it is NaN.
  const auto sign = [](Scalar<T> x) { return x > 0 ? Scalar<T>(1) : x < 0 ? Scalar<T>(-1) : x; };
  map(
      grad_in, n, [&](Scalar<T> grad, Scalar<T> x) { return grad * sign(x); }, grad_out, in);
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
template <class T, class Loses>
void select_backward(T* grad_a, T* grad_b, const T* grad_out, const T* a, const T* b, const Broadcast& shape,
                     Loses loses) {
  for_each_index(shape.rank, shape.size, shape.count, [&](std::int64_t i, const Index& index) {
    const Scalar<T> x = load(a[offset(shape.rank, index, shape.stride[0])]);
    const Scalar<T> y = load(b[offset(shape.rank, index, shape.stride[1])]);
    const Scalar<T> share = x == y ? load(grad_out[i]) / 2 : load(grad_out[i]);
    grad_a[i] = store<T>(loses(x, y) ? 0 : share);
    grad_b[i] = store<T>(loses(y, x) ? 0 : share);
  });
}

template <class T>
void maximum_backward(Context&, T* grad_a, T* grad_b, const T* grad_out, const T* a, const T* b,
                      const Broadcast& shape) {
  select_backward(grad_a, grad_b, grad_out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x < y; });
}

template <class T>
void minimum_backward(Context&, T* grad_a, T* grad_b, const T* grad_out, const T* a, const T* b,
                      const Broadcast& shape) {
  select_backward(grad_a, grad_b, grad_out, a, b, shape, [](Scalar<T> x, Scalar<T> y) { return x > y; });
}

}  // namespace

template <class T>
kernels::Arithmetic<T> arithmetic() {
  return {.add = add<T>,
          .sub = sub<T>,
          .mul = mul<T>,
          .div = div<T>,
          .maximum = maximum<T>,
          .minimum = minimum<T>,
          .power = power<T>,
          .fmod = fmod<T>,
          .equal = equal<T>,
          .not_equal = not_equal<T>,
          .less = less<T>,
          .less_equal = less_equal<T>,
          .greater = greater<T>,
          .greater_equal = greater_equal<T>,
          .where = where<T>,
          .neg = neg<T>,
          .exp = exp<T>,
          .log = log<T>,
          .sqrt = sqrt<T>,
          .abs = abs<T>,
          .sin = sin<T>,
          .cos = cos<T>,
          .erf = erf<T>,
          .floor = floor<T>,
          .ceil = ceil<T>,
          .round = round<T>,
          .pow = pow<T>,
          .clamp = clamp<T>,
          .affine = affine<T>,
          .add_all = add_all<T>,
          .sqrt_backward = sqrt_backward<T>,
          .abs_backward = abs_backward<T>,
          .pow_backward = pow_backward<T>,
          .clamp_backward = clamp_backward<T>,
          .maximum_backward = maximum_backward<T>,
          .minimum_backward = minimum_backward<T>};
}
template kernels::Arithmetic<float> arithmetic<float>();
template kernels::Arithmetic<double> arithmetic<double>();
template kernels::Arithmetic<BFloat16> arithmetic<BFloat16>();
template kernels::Arithmetic<Float16> arithmetic<Float16>();

}  // namespace tern::sequential
