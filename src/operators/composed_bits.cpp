// Shifts: one multiplication or division for each bit of the count.

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tern/operators/bits.hpp"

namespace tern::operators {

namespace {

template <class By>
Tensor shifted(const char* op, const Tensor& a, const Tensor& count, By by) {
  check_dtypes(op, a, count);
  expects<DTypeError>(!is_floating(a.dtype()) && a.dtype() != DType::boolean, op, ": inputs are ", a.dtype(),
                      ", expected integers");
  const Shape shape = broadcast(op, a.shape(), count.shape());
  const int bits = static_cast<int>(size_of(a.dtype())) * 8;
  Tensor result = a.expand(shape);
  for (int step = 1; step < bits; step *= 2) {
    const Tensor has = not_equal(bitwise_and(count, number_like(count, step)), 0);
    result = where(has, by(result, step), result);
  }
  const Tensor out = logical_or(less(count, 0), greater_equal(count, bits));
  return where(out, by(by(result, bits / 2), bits / 2), result);
}

}  // namespace

Tensor bitwise_left_shift(const Tensor& a, const Tensor& count) {
  if (traces()) return traced("bitwise_left_shift", a, count);
  return shifted("bitwise_left_shift", a, count,
                 [](const Tensor& x, int places) { return mul(x, static_cast<double>(std::int64_t{1} << places)); });
}

Tensor bitwise_right_shift(const Tensor& a, const Tensor& count) {
  if (traces()) return traced("bitwise_right_shift", a, count);
  return shifted("bitwise_right_shift", a, count, [](const Tensor& x, int places) {
    return floor_divide(x, static_cast<double>(std::int64_t{1} << places));
  });
}

}  // namespace tern::operators
