#pragma once
// Whether numbers are finite.

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "vectorized/parallel.hpp"

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

/// What a team found out about the weights of a plan that skips padding, kept behind the packed ones: zeros that are
/// multiplied by infinity or NaN would have to turn into NaN.
template <class T>
struct WeightsFound {
  static constexpr std::int64_t size = 64;  ///< parts of the weights, one element each

  static void find(const Team& team, T* found, const T* weights, std::int64_t count) {
    for (std::int64_t part = team.begin(size); part < team.end(size); ++part)
      found[part] = are_finite(weights, count * part / size, count * (part + 1) / size) ? T{1} : T{0};
  }
  static bool finite(const T* found) {
    bool all = true;
    for (std::int64_t part = 0; part < size; ++part) all &= found[part] == T{1};
    return all;
  }
};

}  // namespace tern::vectorized::convolution
