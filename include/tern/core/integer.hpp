#pragma once
// Integer arithmetic, the same in every mode and on devices. Results out of range wrap around, where C++ leaves signed
// overflow undefined. bool counts as 0 and 1; a result other than 0 becomes true.

#include <cstdint>
#include <limits>
#include <type_traits>

namespace tern::integer {

/// The type in which T is computed: unsigned, so that it wraps, and no narrower than int, to which C++ would promote
/// it.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
constexpr Wide<T> wide(T x) {
  return static_cast<Wide<T>>(x);
}
template <class T>
constexpr T narrow(Wide<T> x) {
  if constexpr (std::is_same_v<T, bool>)
    return x != 0;
  else
    return static_cast<T>(x);
}

/// Division by 0 gives 0. Division by -1 negates, and wraps for the least number.
template <class T>
constexpr T quotient(T a, T b) {
  if (b == 0) return T(0);
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return narrow<T>(0 - wide(a));
  return static_cast<T>(a / b);
}
template <class T>
constexpr T rest(T a, T b) {
  if (b == 0) return T(0);
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}

// clang-format off
struct Add { template <class T> constexpr T operator()(T a, T b) const { return narrow<T>(wide(a) + wide(b)); } };
struct Sub { template <class T> constexpr T operator()(T a, T b) const { return narrow<T>(wide(a) - wide(b)); } };
struct Mul { template <class T> constexpr T operator()(T a, T b) const { return narrow<T>(wide(a) * wide(b)); } };
struct Quotient { template <class T> constexpr T operator()(T a, T b) const { return quotient(a, b); } };
struct Rest { template <class T> constexpr T operator()(T a, T b) const { return rest(a, b); } };
struct Larger { template <class T> constexpr T operator()(T a, T b) const { return b > a ? b : a; } };
struct Smaller { template <class T> constexpr T operator()(T a, T b) const { return b < a ? b : a; } };
struct And { template <class T> constexpr T operator()(T a, T b) const { return static_cast<T>(a & b); } };
struct Or { template <class T> constexpr T operator()(T a, T b) const { return static_cast<T>(a | b); } };
struct Xor { template <class T> constexpr T operator()(T a, T b) const { return static_cast<T>(a ^ b); } };

struct Equal { template <class T> constexpr bool operator()(T a, T b) const { return a == b; } };
struct NotEqual { template <class T> constexpr bool operator()(T a, T b) const { return a != b; } };
struct Less { template <class T> constexpr bool operator()(T a, T b) const { return a < b; } };
struct LessEqual { template <class T> constexpr bool operator()(T a, T b) const { return a <= b; } };
struct Greater { template <class T> constexpr bool operator()(T a, T b) const { return a > b; } };
struct GreaterEqual { template <class T> constexpr bool operator()(T a, T b) const { return a >= b; } };

struct Neg { template <class T> constexpr T operator()(T x) const { return narrow<T>(0 - wide(x)); } };
struct Abs { template <class T> constexpr T operator()(T x) const {
  if constexpr (std::is_signed_v<T>) return x < 0 ? Neg{}(x) : x; else return x; } };
struct Sign { template <class T> constexpr T operator()(T x) const {
  if constexpr (std::is_signed_v<T>) return static_cast<T>((x > 0) - (x < 0)); else return static_cast<T>(x != 0); } };
struct Not { template <class T> constexpr T operator()(T x) const {
  if constexpr (std::is_same_v<T, bool>) return !x; else return static_cast<T>(~x); } };
// clang-format on

// Reductions: the value of an element, the initial value, the combining step and the stored result.
template <class T>
struct SumOf {
  using State = std::uint64_t;
  using Result = std::int64_t;
  static constexpr State first = 0;
  static constexpr State of(T x) { return static_cast<State>(x); }
  static constexpr State join(State a, State b) { return a + b; }
};
template <class T>
struct ProductOf : SumOf<T> {
  using State = std::uint64_t;
  static constexpr State first = 1;
  static constexpr State join(State a, State b) { return a * b; }
};
template <class T>
struct AnyOf {
  using State = std::uint32_t;
  using Result = bool;
  static constexpr State first = 0;
  static constexpr State of(T x) { return x != 0; }
  static constexpr State join(State a, State b) { return a | b; }
};
template <class T>
struct AllOf : AnyOf<T> {
  using State = std::uint32_t;
  static constexpr State first = 1;
  static constexpr State join(State a, State b) { return a & b; }
};
template <class T>
struct LargestOf {
  using State = T;
  using Result = T;
  static constexpr State first = std::numeric_limits<T>::lowest();
  static constexpr State of(T x) { return x; }
  static constexpr State join(State a, State b) { return Larger{}(a, b); }
  static constexpr bool better(T x, T best) { return x > best; }
};
template <class T>
struct SmallestOf : LargestOf<T> {
  static constexpr T first = std::numeric_limits<T>::max();
  static constexpr T join(T a, T b) { return Smaller{}(a, b); }
  static constexpr bool better(T x, T best) { return x < best; }
};

}  // namespace tern::integer
