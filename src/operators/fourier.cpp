#include "tern/operators/fourier.hpp"

#include <numbers>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

// Rows of complex numbers; without an imaginary part it is 0.
struct Signal {
  Tensor real, imaginary;
};

// cos and sin of 2 pi j k / n for j < rows and k < columns; sin with `sign`.
Signal turns(std::int64_t rows, std::int64_t columns, std::int64_t n, double sign, DType dtype) {
  // The product of two whole numbers below 2^26 is exact, and so is its remainder.
  const Tensor product = mul(positions(rows).reshape({rows, 1}), positions(columns).reshape({1, columns}));
  const Tensor angle = mul(remainder(product, static_cast<double>(n)), 2 * std::numbers::pi / static_cast<double>(n));
  return {cos(angle).to(dtype), mul(sin(angle), sign).to(dtype)};
}

Signal times(const Signal& a, const Signal& b, Tensor (*product)(const Tensor&, const Tensor&)) {
  Signal result{product(a.real, b.real), product(a.real, b.imaginary)};
  if (a.imaginary.defined()) {
    result.real = sub(result.real, product(a.imaginary, b.imaginary));
    result.imaginary = add(result.imaginary, product(a.imaginary, b.real));
  }
  return result;
}

Tensor matrix_product(const Tensor& a, const Tensor& b) { return matmul(a, b); }

template <class F>
Signal both(const Signal& x, F f) {
  return {f(x.real), x.imaginary.defined() ? f(x.imaginary) : Tensor{}};
}

std::int64_t factor_of(std::int64_t n) {
  constexpr std::int64_t most = 64;
  if (n <= most) return n;
  for (std::int64_t p = most; p > 1; --p)
    if (n % p == 0) return p;
  return n;
}

// The transform of rows [B, n]. `sign` is that of the exponent.
Signal transformed(const Signal& x, double sign) {
  const std::int64_t rows = x.real.size(0), n = x.real.size(1), p = factor_of(n), m = n / p;
  const DType dtype = x.real.dtype();
  if (m == 1) return times(x, turns(n, n, n, sign, dtype), matrix_product);
  // Element j1 + p j2 and frequency m k1 + k2: transforms over j2, a turn by j1 k2 / n, transforms over j1.
  const Signal inner = transformed(both(x,
                                        [&](const Tensor& part) {
                                          return transpose(part.reshape({rows, m, p}), 1, 2).reshape({rows * p, m});
                                        }),
                                   sign);
  const Signal turned = times(both(inner,
                                   [&](const Tensor& part) {
                                     return part.reshape({rows, p, m});
                                   }),
                              turns(p, m, n, sign, dtype), mul);
  const Signal outer = times(both(turned, [](const Tensor& part) { return transpose(part, 1, 2); }),
                             turns(p, p, p, sign, dtype), matrix_product);
  return both(outer, [&](const Tensor& part) { return transpose(part, 1, 2).reshape({rows, n}); });
}

// x [B, size] with `length` columns.
Tensor of_length(const Tensor& x, std::int64_t length) {
  return x.size(1) == length ? x : pad(x, {{1, 0, length - x.size(1)}}, 0);
}

// The whole spectrum from its first numbers: X[n - k] is the conjugate of X[k].
Signal mirrored(const Signal& half, std::int64_t length) {
  const std::int64_t kept = length / 2 + 1;
  const auto joined = [&](const Tensor& part, bool negative) {
    const Tensor first = of_length(part, kept);
    const Tensor rest = flip(slice(first, 1, 1, (length + 1) / 2), 1);
    return cat({first, negative ? neg(rest) : rest}, 1);
  };
  return {joined(half.real, false), half.imaginary.defined() ? joined(half.imaginary, true) : Tensor{}};
}

}  // namespace

Tensor dft(const Tensor& x, std::int64_t dim, const DftOptions& options) {
  constexpr const char* name = "dft";
  if (traces()) return traced(name, x, dim, options);
  check_floating(name, "the input", x);
  expects<ShapeError>(x.rank() >= 2 && (x.size(-1) == 1 || x.size(-1) == 2), name, ": input ", x.shape(),
                      ", expected [..., n, ..., 1 or 2]");
  const int place = normalize_dim(name, dim, x.rank());
  expects<ShapeError>(place != x.rank() - 1, name, ": dimension ", dim, " of ", x.shape(),
                      " holds the real and the imaginary part");
  const std::int64_t size = x.shape()[place];
  const bool to_real = options.inverse && options.onesided;
  const std::int64_t length = options.length.value_or(to_real ? 2 * (size - 1) : size);
  expects<ShapeError>(size >= 1 && length >= 1 && length < 1 << 26, name, ": a signal of ", size, " and a length of ",
                      length, ", expected from 1 to 2^26");
  return compose(name, x, [&](const Tensor& wide) {
    const Unshortened unshortened(x.dtype());
    const Tensor last = transpose(wide, place, x.rank() - 2);  // [..., n, parts]
    Shape shape(last.shape().begin(), last.shape().end() - 2);
    const std::int64_t rows = element_count(shape);
    const auto part = [&](std::int64_t i) {
      return x.size(-1) > i ? slice(last, -1, i, i + 1).reshape({rows, size}) : Tensor{};
    };
    const Signal given{part(0), part(1)};
    const Signal signal =
        to_real ? mirrored(given, length) : both(given, [&](const Tensor& of) { return of_length(of, length); });
    Signal out = transformed(signal, options.inverse ? 1 : -1);
    if (options.inverse) out = both(out, [&](const Tensor& of) { return div(of, static_cast<double>(length)); });
    if (options.onesided && !options.inverse)
      out = both(out, [&](const Tensor& of) { return slice(of, 1, 0, length / 2 + 1); });
    shape.push_back(out.real.size(1));
    std::vector<Tensor> parts{out.real.reshape(shape)};
    if (!to_real) parts.push_back(out.imaginary.reshape(shape));
    return transpose(stack(parts, -1), place, x.rank() - 2);
  });
}

}  // namespace tern::operators
