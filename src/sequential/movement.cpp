#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::Strided;

void copy(Context&, void* out, const void* in, const Strided& shape, std::size_t element) {
  const auto bytes = static_cast<std::int64_t>(element);
  for_each_index(shape.rank, shape.size, shape.count, [&](std::int64_t, const Index& index) {
    std::copy_n(static_cast<const std::byte*>(in) + offset(shape.rank, index, shape.in) * bytes, bytes,
                static_cast<std::byte*>(out) + offset(shape.rank, index, shape.out) * bytes);
  });
}

void fill(Context&, void* out, std::int64_t n, const void* value, std::size_t element) {
  const auto bytes = static_cast<std::int64_t>(element);
  for (std::int64_t i = 0; i < n; ++i)
    std::copy_n(static_cast<const std::byte*>(value), bytes, static_cast<std::byte*>(out) + i * bytes);
}

void gather(Context&, void* out, const void* in, const std::int64_t* index, std::int64_t rows, std::int64_t in_rows,
            std::int64_t row_bytes) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::byte* to = static_cast<std::byte*>(out) + row * row_bytes;
    if (0 <= index[row] && index[row] < in_rows)
      std::copy_n(static_cast<const std::byte*>(in) + index[row] * row_bytes, row_bytes, to);
    else
      std::fill_n(to, row_bytes, std::byte{0});
  }
}

template <class T>
constexpr bool is_half = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

/// `value` as a float that rounds to a half precision exactly as `value` itself would: where it lies between two
/// floats, the one with the odd last bit, which is never halfway between two halves. Rounding to the nearest float
/// first would round twice.
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (nearest == value || (std::bit_cast<std::uint32_t>(nearest) & 1u) != 0) return nearest;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, nearest < value ? infinity : -infinity);
}

template <class To, class From>
To truncate(From value) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<From>(Limits::min())) return Limits::min();
  if (value >= static_cast<From>(Limits::max())) return Limits::max();
  return static_cast<To>(value);
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (is_half<From>)
    return convert<To>(static_cast<float>(value));
  else if constexpr (is_half<To>)
    return To(round_to_odd(static_cast<double>(value)));
  else if constexpr (std::is_same_v<To, bool>)
    return value != 0;
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return truncate<To>(value);
  else
    return static_cast<To>(value);
}

/// Calls visit with a value of the C++ type of `dtype`.
template <class Visit>
void with_type_of(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::float32:
      return visit(float{});
    case DType::float64:
      return visit(double{});
    case DType::bfloat16:
      return visit(BFloat16{});
    case DType::float16:
      return visit(Float16{});
    case DType::int32:
      return visit(std::int32_t{});
    case DType::int64:
      return visit(std::int64_t{});
    case DType::uint8:
      return visit(std::uint8_t{});
    case DType::boolean:
      return visit(bool{});
  }
}

void cast(Context&, void* out, DType to, const void* in, DType from, std::int64_t n) {
  with_type_of(to, [&]<class To>(To) {
    with_type_of(from, [&]<class From>(From) {
      for (std::int64_t i = 0; i < n; ++i) static_cast<To*>(out)[i] = convert<To>(static_cast<const From*>(in)[i]);
    });
  });
}

}  // namespace

kernels::Movement movement() { return {.copy = copy, .fill = fill, .gather = gather, .cast = cast}; }

}  // namespace tern::sequential
