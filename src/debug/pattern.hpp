#pragma once
// The contents of unwritten bytes: NaN, -1 or true in the first view, small positive numbers and zeros that vary by
// place in the second.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "debug/arena.hpp"

namespace tern::debug {

inline constexpr std::uint64_t first_pattern = ~std::uint64_t{0};

/// Eight bytes of the second view; `address` is a library address, a multiple of eight.
inline std::uint64_t second_pattern(const std::byte* address) {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(address) / 8 * 0x9e3779b97f4a7c15;
  hash ^= hash >> 29;
  hash *= 0xbf58476d1ce4e5b9;
  hash ^= hash >> 32;
  const std::uint64_t nonzero = (hash >> 6 & 0x0101010101010101) * 0xff;
  return hash & 0x3f3f3f3f3f3f3f3f & nonzero;
}

/// Calls visit(address, first, second, pattern) for each byte of [begin, end) that differs between the views: its two
/// values, and the second view's unwritten pattern. Stops when it returns false.
template <class Visit>
void for_each_difference(std::byte* begin, std::byte* end, Visit visit) {
  constexpr std::uintptr_t step = 8;
  for (std::byte* at = begin; at < end;) {
    const auto phase = reinterpret_cast<std::uintptr_t>(at) % step;
    if (phase == 0 && end - at >= static_cast<std::ptrdiff_t>(step) &&
        std::memcmp(in_view(at, 0), in_view(at, 1), step) == 0) {
      at += step;
      continue;
    }
    const std::uint64_t word = second_pattern(at - phase);
    std::byte pattern[step];
    std::memcpy(pattern, &word, step);
    for (std::uintptr_t i = phase; i < step && at < end; ++i, ++at) {
      const std::byte first = *in_view(at, 0), second = *in_view(at, 1);
      if (first != second && !visit(at, first, second, pattern[i])) return;
    }
  }
}

/// Marks the bytes as unwritten.
inline void unwrite(std::byte* begin, std::byte* end) {
  std::memset(in_view(begin, 0), 0xff, static_cast<std::size_t>(end - begin));
  constexpr std::uintptr_t step = 8;
  for (std::byte* at = begin; at < end;) {
    const auto phase = reinterpret_cast<std::uintptr_t>(at) % step;
    const std::uint64_t word = second_pattern(at - phase);
    const std::size_t part = std::min<std::size_t>(step - phase, static_cast<std::size_t>(end - at));
    std::memcpy(in_view(at, 1), reinterpret_cast<const std::byte*>(&word) + phase, part);
    at += part;
  }
}

}  // namespace tern::debug
