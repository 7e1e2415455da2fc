#pragma once
// Whether numbers are finite.

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tern::vectorized::convolution {

template <class T>
bool are_finite(const T* values, std::int64_t begin, std::int64_t end) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr auto exponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  Bits found = 0;
  for (std::int64_t i = begin; i < end; ++i)
    found |= static_cast<Bits>((std::bit_cast<Bits>(values[i]) & exponent) == exponent);
  return found == 0;
}

}  // namespace tern::vectorized::convolution
