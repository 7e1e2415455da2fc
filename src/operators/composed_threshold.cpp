// Activations with a threshold, and gates.

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tern/operators/activation.hpp"
#include "tern/operators/shape.hpp"
#include "tern/operators/thresholds.hpp"

namespace tern::operators {

Tensor softsign(const Tensor& x) {
  if (traces()) return traced("softsign", x);
  return compose("softsign", x, [](const Tensor& wide) { return div(wide, add(abs(wide), 1)); });
}

Tensor threshold(const Tensor& x, double threshold, double value) {
  if (traces()) return traced("threshold", x, threshold, value);
  return compose("threshold", x, [&](const Tensor& wide) { return replace(wide, less_equal(wide, threshold), value); });
}

Tensor hardtanh(const Tensor& x, double low, double high) {
  if (traces()) return traced("hardtanh", x, low, high);
  expects<NumericError>(low <= high, "hardtanh: bounds ", low, " and ", high, ", expected low <= high");
  return compose("hardtanh", x, [&](const Tensor& wide) {
    return replace(replace(wide, less_equal(wide, low), low), greater_equal(wide, high), high);
  });
}

namespace {

Tensor shrunk(const char* op, const Tensor& x, double lambda, double bias) {
  expects<NumericError>(lambda >= 0, op, ": lambda ", lambda, ", expected at least 0");
  return compose(op, x, [&](const Tensor& wide) {
    const Tensor between = less_equal(abs(wide.detach()), lambda);
    if (bias == 0) return replace(wide, between, 0);
    const Tensor moved = where(less(wide, 0), add(wide, bias), sub(wide, bias));
    return replace(moved, between, 0);
  });
}

}  // namespace

Tensor shrink(const Tensor& x, double lambda, double bias) {
  if (traces()) return traced("shrink", x, lambda, bias);
  return shrunk("shrink", x, lambda, bias);
}

Tensor hardshrink(const Tensor& x, double lambda) {
  if (traces()) return traced("hardshrink", x, lambda);
  return shrunk("hardshrink", x, lambda, 0);
}

Tensor softshrink(const Tensor& x, double lambda) {
  if (traces()) return traced("softshrink", x, lambda);
  return shrunk("softshrink", x, lambda, lambda);
}

Tensor tanhshrink(const Tensor& x) {
  if (traces()) return traced("tanhshrink", x);
  return compose("tanhshrink", x, [](const Tensor& wide) { return sub(wide, tanh(wide)); });
}

Tensor glu(const Tensor& x, std::int64_t dim) {
  if (traces()) return traced("glu", x, dim);
  check_floating("glu", "the input", x);
  const int place = normalize_dim("glu", dim, x.rank());
  const std::int64_t size = x.shape()[place];
  expects<ShapeError>(size % 2 == 0, "glu: dimension ", dim, " of ", x.shape(), " has no two equal halves");
  return compose("glu", x, [&](const Tensor& wide) {
    return mul(wide.slice(place, 0, size / 2), sigmoid(wide.slice(place, size / 2, size)));
  });
}

}  // namespace tern::operators
