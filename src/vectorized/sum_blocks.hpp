#pragma once
// Sums in an order that only the shape fixes: blocks of `sum_block` elements, summed as a balanced tree.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "vectorized/parallel.hpp"

namespace tern::vectorized {

inline constexpr std::int64_t sum_block = 4096;

constexpr std::int64_t block_count(std::int64_t n) { return (n + sum_block - 1) / sum_block; }

/// The balanced tree over n > 0 values.
template <class T>
T pairwise_sum(const T* values, std::int64_t n) {
  if (n <= 4) {
    T sum = values[0];
    for (std::int64_t i = 1; i < n; ++i) sum += values[i];
    return sum;
  }
  const auto half = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n - 1)));
  return pairwise_sum(values, half) + pairwise_sum(values + half, n - half);
}

/// The sum over [0, n); block(begin, end) sums one block.
template <class T, class Block>
T sum_blocks(Context& context, std::int64_t n, double nanoseconds, const Block& block) {
  const std::int64_t blocks = block_count(n);
  if (blocks == 0) return T(0);
  if (blocks == 1) return block(std::int64_t{0}, n);
  constexpr std::int64_t few = 64;  // partial sums on the stack
  T on_stack[few] = {};
  const Scratch scratch(context, blocks <= few ? 0 : static_cast<std::size_t>(blocks) * sizeof(T));
  T* partial = blocks <= few ? on_stack : scratch.as<T>();
  parallel_for(context, blocks, nanoseconds * sum_block, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) partial[i] = block(i * sum_block, std::min(n, (i + 1) * sum_block));
  });
  return pairwise_sum(partial, blocks);
}

}  // namespace tern::vectorized
