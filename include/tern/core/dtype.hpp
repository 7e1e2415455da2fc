#pragma once
// The element types of tensors. `DType`, `ElementTypes` and the table of `DTypeFacts` list them; everything else
// (sizes, names, codes in file formats, visitors) derives from these. No switch over DType has a default, so a new type
// does not compile until every switch handles it.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace tern {

/// The element type of a tensor, a run-time value. Operators compute in floating types. Integers and bool carry labels,
/// masks and images; arithmetic, comparisons, logic, sums and sorting accept int32, int64, uint8 and boolean. int8 is
/// storage only: it can be created, copied, moved, saved and converted.
enum class DType : std::uint8_t { float32, float64, bfloat16, float16, int32, int64, uint8, boolean, int8 };

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
    // Without branches, so that compilers vectorize loops. Adding 0.5 moves a subnormal's digits, rounded, to the end.
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000u, magnitude = word & 0x7fffffffu;
    const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // rounds to 65536 or above
    half = magnitude > 0x7f800000u ? 0x7e00u : half;
    bits = static_cast<std::uint16_t>(sign | half);
  }
  constexpr explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t digits = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
    const std::uint32_t normal = digits + (digits >= 0x0f800000u ? 0x70000000u : 0x38000000u);  // or infinite, or NaN
    const float subnormal = std::bit_cast<float>(digits + 0x38800000u) - std::bit_cast<float>(0x38800000u);
    const std::uint32_t magnitude = digits < 0x00800000u ? std::bit_cast<std::uint32_t>(subnormal) : normal;
    return std::bit_cast<float>(sign | magnitude);
  }
};

template <class... Types>
struct TypeList {};
/// The C++ type of each DType, in its order.
using ElementTypes =
    TypeList<float, double, BFloat16, Float16, std::int32_t, std::int64_t, std::uint8_t, bool, std::int8_t>;

enum class Kind : std::uint8_t { floating, integer, boolean };

/// What the library knows about a dtype.
struct DTypeFacts {
  DType dtype;
  std::string_view name;
  std::size_t size;  ///< bytes per element
  Kind kind;
  std::string_view npy;          ///< NumPy's code for little-endian elements; empty if NumPy has no such type
  std::string_view safetensors;  ///< code in a safetensors header
  std::uint8_t dlpack;           ///< DLDataTypeCode
};

inline constexpr DTypeFacts dtype_facts[]{
    {DType::float32, "float32", 4, Kind::floating, "<f4", "F32", 2},
    {DType::float64, "float64", 8, Kind::floating, "<f8", "F64", 2},
    {DType::bfloat16, "bfloat16", 2, Kind::floating, "", "BF16", 4},
    {DType::float16, "float16", 2, Kind::floating, "<f2", "F16", 2},
    {DType::int32, "int32", 4, Kind::integer, "<i4", "I32", 0},
    {DType::int64, "int64", 8, Kind::integer, "<i8", "I64", 0},
    {DType::uint8, "uint8", 1, Kind::integer, "|u1", "U8", 1},
    {DType::boolean, "bool", 1, Kind::boolean, "|b1", "BOOL", 6},
    {DType::int8, "int8", 1, Kind::integer, "|i1", "I8", 0},
};

constexpr const DTypeFacts& facts_of(DType dtype) { return dtype_facts[static_cast<int>(dtype)]; }

/// Bytes per element.
constexpr std::size_t size_of(DType dtype) { return facts_of(dtype).size; }
constexpr std::string_view name_of(DType dtype) { return facts_of(dtype).name; }
constexpr bool is_floating(DType dtype) { return facts_of(dtype).kind == Kind::floating; }

/// For streams of the standard library, whose header is not needed here.
template <class Stream>
requires requires {
  typename Stream::char_type;
  typename Stream::traits_type;
}
Stream& operator<<(Stream& stream, DType dtype) {
  stream << name_of(dtype);
  return stream;
}

namespace detail {

template <class T, class... Types>
constexpr DType position_in(TypeList<Types...>) {
  static_assert((std::is_same_v<T, Types> || ...), "no tensor has elements of this type");
  int position = 0;
  (void)((std::is_same_v<T, Types> || (++position, false)) || ...);
  return static_cast<DType>(position);
}

template <class... Types>
constexpr bool facts_fit(TypeList<Types...>) {
  int position = 0;
  bool fit = sizeof...(Types) == std::size(dtype_facts);
  ((fit = fit && dtype_facts[position].dtype == static_cast<DType>(position) &&
          dtype_facts[position].size == sizeof(Types),
    ++position),
   ...);
  return fit;
}
static_assert(facts_fit(ElementTypes{}), "DType, ElementTypes and dtype_facts differ");

}  // namespace detail

/// DType of a C++ type: `dtype_of<float> == DType::float32`.
template <class T>
inline constexpr DType dtype_of = detail::position_in<T>(ElementTypes{});

/// Calls `visit` with a value of the C++ type of `dtype`.
template <class Visit>
constexpr decltype(auto) with_type_of(DType dtype, const Visit& visit) {
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
    case DType::int8:
      return visit(std::int8_t{});
  }
  throw std::logic_error("DType: the value is none of its enumerators");
}

/// Calls `visit.template operator()<T>()` with each element type, in the order of DType.
template <class Visit>
constexpr void for_each_element_type(const Visit& visit) {
  [&]<class... Types>(TypeList<Types...>) { (visit.template operator()<Types>(), ...); }(ElementTypes{});
}

/// The type for scalars that go with elements of T: slopes, exponents, statistics, losses, moments, learning rates. It
/// is float for 16-bit elements, which have too few digits, and T otherwise.
template <class T>
using Scalar = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float, T>;

/// The same for a run-time dtype.
constexpr DType scalar_of(DType dtype) {
  return dtype == DType::bfloat16 || dtype == DType::float16 ? DType::float32 : dtype;
}

}  // namespace tern
