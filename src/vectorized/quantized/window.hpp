#pragma once

#include <cstdint>

namespace tern::vectorized::int8 {

/// One side of a window: positions [begin, end) of the plane, and how many count for a mean.
struct Side {
  std::int64_t begin, end, count;
};

struct Window {
  Side rows, columns;
  std::int64_t row_step, column_step;  ///< the dilation
  std::int64_t width;                  ///< of the plane
  std::int64_t count;                  ///< the divisor of a mean
};

}  // namespace tern::vectorized::int8
