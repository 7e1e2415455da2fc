#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tern {

/// Element type of a tensor, a run-time value. Operators compute in the floating ones; arithmetic, comparisons, logic,
/// sums and order also in the others, which carry labels, masks and images.
enum class DType : std::uint8_t { float32, float64, bfloat16, float16, int32, int64, uint8, boolean };

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::int64:
      return 8;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::bfloat16:
    case DType::float16:
      return 2;
    default:
      return 1;
  }
}

constexpr bool is_floating(DType dtype) { return dtype <= DType::float16; }

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[]{"float32", "float64", "bfloat16", "float16", "int32", "int64", "uint8", "bool"};
  return names[static_cast<int>(dtype)];
}

template <class Stream>
Stream& operator<<(Stream& stream, DType dtype) {
  stream << name_of(dtype);
  return stream;
}

/// Storage of a bfloat16: the upper half of a float32. Rounds to nearest even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  constexpr explicit BFloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (word >> 16) | 0x40u : (word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  constexpr explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// Storage of an IEEE binary16. Rounds to nearest even; overflow becomes infinity, NaN stays NaN.
struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  constexpr explicit Float16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000u;
    const std::uint32_t magnitude = word & 0x7fffffffu;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or above
      half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // a normal half
      const std::uint32_t rebased = magnitude - 0x38000000u;
      half = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
    } else if (magnitude >= 0x33000000u) {  // a subnormal half
      const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
      const std::uint32_t shift = 126u - (magnitude >> 23);
      const std::uint32_t kept = mantissa >> shift;
      const std::uint32_t rest = mantissa & ((1u << shift) - 1u);
      const std::uint32_t midpoint = 1u << (shift - 1u);
      half = kept + ((rest > midpoint || (rest == midpoint && (kept & 1u))) ? 1u : 0u);
    }
    bits = static_cast<std::uint16_t>(sign | half);
  }
  constexpr explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    std::uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
    if (mantissa == 0) return std::bit_cast<float>(sign);
    std::uint32_t shifted = 113;
    while ((mantissa & 0x400u) == 0) {
      mantissa <<= 1;
      --shifted;
    }
    return std::bit_cast<float>(sign | (shifted << 23) | ((mantissa & 0x3ffu) << 13));
  }
};

/// In what the numbers about elements of T are kept: slopes, exponents, statistics, losses, moments, learning rates.
/// float for 16-bit elements, which have too few digits for them, else T itself.
template <class T>
using Scalar = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float, T>;

/// The same as a run-time value.
constexpr DType scalar_of(DType dtype) {
  return dtype == DType::bfloat16 || dtype == DType::float16 ? DType::float32 : dtype;
}

/// DType of a C++ type: `dtype_of<float> == DType::float32`.
template <class T>
inline constexpr DType dtype_of = T::no_such_element_type;
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bfloat16;
template <>
inline constexpr DType dtype_of<Float16> = DType::float16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::int32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::int64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::uint8;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

}  // namespace tern
