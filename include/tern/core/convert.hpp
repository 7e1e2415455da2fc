#pragma once
// How the library converts a number from one type to another, on devices too: in `to`, `item`, `full` and `fill_`.

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tern/core/dtype.hpp"

namespace tern {

/// To an integer: truncates toward zero and saturates; NaN becomes 0.
template <class To, class From>
constexpr To saturate(From value) {
  using Limits = std::numeric_limits<To>;
  if constexpr (std::is_integral_v<From>) {
    // Compares both limits as values of From. The limit is exact or From cannot exceed it.
    if constexpr (std::is_signed_v<From>) {
      if (!std::is_signed_v<To> && value < 0) return 0;
      if constexpr (sizeof(From) > sizeof(To))
        if (value < static_cast<From>(Limits::min())) return Limits::min();
    }
    if constexpr (sizeof(From) > sizeof(To) || (std::is_unsigned_v<From> && std::is_signed_v<To>))
      if (value > static_cast<From>(Limits::max())) return Limits::max();
    return static_cast<To>(value);
  } else {
    if (value != value) return 0;
    // From may not represent the largest integer; its rounded neighbour is already out of range.
    if (value <= static_cast<From>(Limits::min())) return Limits::min();
    if (value >= static_cast<From>(Limits::max())) return Limits::max();
    return static_cast<To>(value);
  }
}

namespace detail {

/// Rounds to odd: returns `value` if a float represents it exactly, else the neighbouring float whose last bit is 1.
/// Such a float is never halfway between two 16-bit values, so a second rounding to 16 bits is correct.
constexpr float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (static_cast<double>(nearest) == value || value != value || (bits & 1u) != 0) return nearest;
  // One step away from zero or towards it. The bits of a float, read as an integer, grow with its magnitude.
  const bool away = value < 0 ? nearest > value : nearest < value;
  return std::bit_cast<float>(away ? bits + 1 : bits - 1);
}

template <class T>
inline constexpr bool is_half = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

}  // namespace detail

/// Converts any element type to any other. Floating types round to nearest even, once; bool is `value != 0`; integers
/// use `saturate`.
template <class To, class From>
constexpr To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (detail::is_half<From>)
    return convert<To>(static_cast<float>(value));
  else if constexpr (detail::is_half<To> && std::is_same_v<From, float>)
    return To(value);
  else if constexpr (detail::is_half<To>)
    return To(detail::round_to_odd(static_cast<double>(value)));
  else if constexpr (std::is_same_v<To, bool>)
    return value != 0;
  else if constexpr (std::is_integral_v<To>)
    return saturate<To>(value);
  else
    return static_cast<To>(value);
}

/// A number as the caller wrote it: an integer or a double. `convert` makes it an element of any dtype; integers keep
/// all 64 bits.
class Number {
 public:
  template <class T>
  constexpr Number(T value) requires(std::is_arithmetic_v<T>) : whole_(std::is_integral_v<T>) {
    if constexpr (std::is_integral_v<T>)
      integer_ = saturate<std::int64_t>(value);
    else
      real_ = static_cast<double>(value);
  }
  constexpr bool is_integer() const { return whole_; }
  template <class T>
  constexpr T to() const {
    return whole_ ? convert<T>(integer_) : convert<T>(real_);
  }

 private:
  bool whole_;
  union {
    double real_;
    std::int64_t integer_;
  };
};

}  // namespace tern
