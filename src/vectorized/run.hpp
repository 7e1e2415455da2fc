#pragma once

#include <cstdint>

namespace tern::vectorized {

/// Products along k whose factors are adjacent in both arrays: the offsets of the first ones, and how many.
struct Run {
  std::int64_t a = 0, b = 0, k = 0;
};

}  // namespace tern::vectorized
