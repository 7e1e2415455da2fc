#pragma once
// Pairs that many loops take.

#include <cstdint>

namespace tern::vectorized {

/// The numbers in [first, last).
struct Range {
  std::int64_t first = 0, last = 0;
  constexpr std::int64_t count() const { return last - first; }
};

/// Rows that begin `pitch` elements apart.
template <class T>
struct Pitched {
  T* at = nullptr;
  std::int64_t pitch = 0;
  constexpr T* row(std::int64_t i) const { return at + i * pitch; }
  /// The rows from that one on; none of none.
  constexpr Pitched from(std::int64_t i) const { return {at == nullptr ? nullptr : row(i), pitch}; }
};

}  // namespace tern::vectorized
