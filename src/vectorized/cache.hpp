#pragma once
// Sizes of blocks.

#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace tern::vectorized {

/// Bytes of a packed block, which streams from the second-level cache: about half of it.
inline std::int64_t block_bytes() {
  static const std::int64_t bytes = [] {
    long cache = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return std::clamp<std::int64_t>(cache / 2, 256 * 1024, 1024 * 1024);
  }();
  return bytes;
}

/// The same times `share`.
inline std::int64_t cache_share(double share) {
  return static_cast<std::int64_t>(share * static_cast<double>(block_bytes()));
}

/// How many lines at one distance of 4096 bytes the first-level cache holds; 8 where nobody says.
inline std::int64_t first_level_ways() {
  static const std::int64_t ways = [] {
    long known = 0;
#ifdef _SC_LEVEL1_DCACHE_ASSOC
    known = sysconf(_SC_LEVEL1_DCACHE_ASSOC);
#endif
    return known > 0 ? known : 8;
  }();
  return ways;
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

/// Edge `index` of `items` cut into `parts` at multiples of `unit`.
inline std::int64_t edge(std::int64_t items, std::int64_t unit, std::int64_t parts, std::int64_t index) {
  return std::min(items, divide_up(items, unit) * index / parts * unit);
}

}  // namespace tern::vectorized
