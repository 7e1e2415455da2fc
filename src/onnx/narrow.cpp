#include "onnx/narrow.hpp"

#include <cmath>
#include <limits>

#include "onnx/model.hpp"
#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

using Special = Narrow::Special;

constexpr std::int64_t float8e8m0 = 24;
// The names have the sign, the bits of exponent and mantissa, and what is not finite.
constexpr Narrow types[]{
    {5, DType::int32, 16, true},
    {17, DType::float32, 8, true, 4, 3, 7, 448, Special::last},              // float8e4m3fn
    {18, DType::float32, 8, true, 4, 3, 8, 240, Special::negative_zero},     // float8e4m3fnuz
    {19, DType::float32, 8, true, 5, 2, 15, 57344, Special::ieee},           // float8e5m2
    {20, DType::float32, 8, true, 5, 2, 16, 57344, Special::negative_zero},  // float8e5m2fnuz
    {21, DType::uint8, 4, false},
    {22, DType::int8, 4, true},
    {23, DType::float32, 4, true, 2, 1, 1, 6},  // float4e2m1
    {float8e8m0, DType::float32, 8, false, 8, 0, 127, 0x1p127, Special::last},
    {25, DType::uint8, 2, false},
    {26, DType::int8, 2, true},
};

/// The largest power of two that is at most x, and at least `least`: x < least 2^(2^steps).
Tensor power_below(const Tensor& x, double least, int steps) {
  Tensor rest = op::mul(x, 1 / least), power = op::expand(full({}, least, x.dtype()), x.shape());
  for (int step = 1 << (steps - 1); step > 0; step /= 2) {
    const double factor = std::ldexp(1, step);
    const Tensor has = op::greater_equal(rest, factor);
    rest = op::where(has, op::mul(rest, 1 / factor), rest);
    power = op::where(has, op::mul(power, factor), power);
  }
  return power;
}

Tensor power_of_two(const Tensor& x, const Tensor& power, const Narrow& narrow, bool saturate,
                    const std::string& mode) {
  const Tensor twice = op::mul(power, 2.0);
  Tensor y =
      mode == "down"
          ? power
          : op::where(mode == "up" ? op::greater(x, power) : op::greater_equal(x, op::mul(power, 1.5)), twice, power);
  const double beyond = saturate ? narrow.largest : std::numeric_limits<double>::quiet_NaN();
  y = op::where(op::greater(y, narrow.largest), beyond, y);
  if (!saturate) y = op::where(op::isinf(x), beyond, y);
  return op::where(op::isnan(x), x, y);
}

}  // namespace

const Narrow* narrow_of(std::int64_t type) {
  for (const Narrow& each : types)
    if (each.type == type) return &each;
  return nullptr;
}

std::optional<DType> holding_dtype(std::int64_t type) {
  if (const Narrow* narrow = narrow_of(type)) return narrow->dtype;
  return dtype_of_element(type);
}

double decoded(const Narrow& narrow, unsigned bits) {
  const auto top = 1u << (narrow.bits - 1);
  if (!narrow.floating()) return narrow.sign && (bits & top) != 0 ? static_cast<double>(bits) - 2.0 * top : bits;
  const double sign = narrow.sign && (bits & top) != 0 ? -1 : 1;
  const unsigned last = (1u << narrow.exponent) - 1, exponent = (bits >> narrow.mantissa) & last,
                 mantissa = bits & ((1u << narrow.mantissa) - 1);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (narrow.special == Special::negative_zero && bits == top) return nan;
  if (narrow.special == Special::ieee && exponent == last)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : nan;
  if (narrow.special == Special::last && exponent == last && mantissa == (1u << narrow.mantissa) - 1) return nan;
  const int step = std::max<int>(static_cast<int>(exponent), narrow.mantissa == 0 ? 0 : 1) - narrow.bias;
  const double fraction = std::ldexp(mantissa, -narrow.mantissa) + (exponent == 0 && narrow.mantissa > 0 ? 0 : 1);
  return sign * std::ldexp(fraction, step);
}

std::vector<unsigned> unpacked(const Narrow& narrow, std::string_view bytes, std::size_t count) {
  std::vector<unsigned> elements(count);
  const std::size_t bits = static_cast<std::size_t>(narrow.bits);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * bits / 8;
    unsigned whole = static_cast<unsigned char>(bytes[at]);
    if (bits > 8) whole |= static_cast<unsigned>(static_cast<unsigned char>(bytes[at + 1])) << 8;
    elements[i] = (whole >> (i * bits % 8)) & ((1u << bits) - 1);
  }
  return elements;
}

Tensor wrapped_to(const Tensor& given, int bits, bool sign, DType dtype) {
  const bool small = size_of(given.dtype()) == 1;
  const Tensor x = small ? op::cast(given, DType::int32) : given;
  const std::int64_t values = std::int64_t{1} << bits;
  const Tensor low = op::bitwise_and(x, full({}, values - 1, x.dtype()));
  if (!sign) return op::cast(low, dtype);
  const auto whole = static_cast<double>(values);
  return op::cast(op::where(op::greater_equal(low, whole / 2), op::sub(low, whole), low), dtype);
}

Tensor narrowed_to(const Narrow& narrow, const Tensor& given, bool saturate, const std::string& round_mode) {
  if (!narrow.floating()) {
    if (given.dtype() == DType::boolean) return op::cast(given, narrow.dtype);
    const Tensor whole = is_floating(given.dtype()) ? op::cast(given, DType::int64) : given;
    return wrapped_to(whole, narrow.bits, narrow.sign, narrow.dtype);
  }
  // In float64, where every step is exact.
  const Tensor x = op::cast(given, DType::float64), size = op::abs(x);
  const double least = std::ldexp(1, (narrow.mantissa == 0 ? 0 : 1) - narrow.bias);
  const Tensor power = power_below(size, least, narrow.exponent);
  if (narrow.mantissa == 0) return op::cast(power_of_two(x, power, narrow, saturate, round_mode), narrow.dtype);
  // A sum with a number whose last digit is the step of the type rounds to nearest even.
  const Tensor large = op::mul(power, std::ldexp(1, 52 - narrow.mantissa));
  Tensor y = op::sub(op::add(size, large), large);
  const double beyond = saturate || narrow.special == Special::none ? narrow.largest
                        : narrow.special == Special::ieee           ? std::numeric_limits<double>::infinity()
                                                                    : std::numeric_limits<double>::quiet_NaN();
  y = op::where(op::logical_or(op::greater(y, narrow.largest), op::isinf(x)), beyond, y);
  y = op::where(op::less(x, 0.0), op::neg(y), y);
  // Zeros keep their sign where the type has both.
  y = narrow.special == Special::negative_zero ? op::add(y, 0.0) : op::where(op::equal(x, 0.0), x, y);
  return op::cast(narrow.special == Special::none ? op::where(op::isnan(x), 0.0, y) : op::where(op::isnan(x), x, y),
                  narrow.dtype);
}

}  // namespace tern::onnx
