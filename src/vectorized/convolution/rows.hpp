#pragma once
// Shared by the files of the rows algorithm.

#include <algorithm>
#include <cstdint>

#include "vectorized/cache.hpp"
#include "vectorized/convolution/algorithm.hpp"
#include "vectorized/gemm.hpp"

namespace tern::vectorized::convolution {

/// Positions of a block whose rows of `depth` elements fill a share of the cache; whole tiles.
template <class T>
std::int64_t block_of(std::int64_t depth) {
  const std::int64_t rows = gemm_kernels<T>().tile_rows;
  const std::int64_t fitting =
      cache_share(0.5) / (std::max<std::int64_t>(depth, 1) * static_cast<std::int64_t>(sizeof(T)));
  return std::clamp<std::int64_t>(fitting, rows, 256) / rows * rows;
}

/// Calls body(image, first position in it, count, positions before) for the images' parts of [first, last).
template <class Body>
void for_images(std::int64_t first, std::int64_t last, std::int64_t positions, const Body& body) {
  for (std::int64_t p = first; p < last;) {
    const std::int64_t at = p % positions, count = std::min(positions - at, last - p);
    body(p / positions, at, count, p - first);
    p += count;
  }
}

/// How a team divides the positions, in tiles, and, if these are few, the panels of outputs.
struct RowsShare {
  std::int64_t row_parts = 1, column_parts = 1;
};
RowsShare share_rows(const Problem& flipped, std::int64_t tiles, std::int64_t panels);

/// With a flipped kernel, zeros around the gradient of y are multiplied; infinity and NaN turn them into NaN.
template <class T>
bool zeros_are_harmless(const Problem&, const T* weight);

/// The gradients of weight and bias, and that of x if the kernel is not flipped.
template <class T>
PlanPointer<T> rows_gradient(const Problem&, const Arrays<T>&);

}  // namespace tern::vectorized::convolution
