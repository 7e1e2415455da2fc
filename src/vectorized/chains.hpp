#pragma once
// Sums of very many products. A product adds in one chain per element; where terms have one sign, a chain of n float32
// additions is off by up to n eps. Long chains are therefore cut at places that only the shape fixes.

#include <algorithm>
#include <cstdint>

#include "vectorized/sum_blocks.hpp"

namespace tern::vectorized {

/// How many terms one chain adds: all, or `sum_block` of a long sum. The chains' results are added in order.
constexpr std::int64_t chain_length(std::int64_t terms) {
  return terms < 8 * sum_block ? std::max<std::int64_t>(1, terms) : sum_block;
}

/// Terms from `first` on that may be added at once: at most `most`, within one chain.
constexpr std::int64_t within_chain(std::int64_t first, std::int64_t terms, std::int64_t chain, std::int64_t most) {
  return std::min({most, terms - first, chain - first % chain});
}

/// c += what a later chain came to, both [m, n].
template <class T>
void add_chain(T* c, std::int64_t c_row, const T* chain, std::int64_t chain_row, std::int64_t m, std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) c[i * c_row + j] += chain[i * chain_row + j];
}

}  // namespace tern::vectorized
