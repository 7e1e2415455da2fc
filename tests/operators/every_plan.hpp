#pragma once
// What tests of convolutions on cuda share: sizes, every tile and split, and how far results of 16 bits may be.
// be.

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/tern.hpp"

namespace tern::testing {

inline bool has_cuda() {
  const std::vector<std::string> modes = available_modes();
  if (std::find(modes.begin(), modes.end(), "cuda") != modes.end()) return true;
  WARN("skipped: mode cuda is not available");
  return false;
}

struct ConvSizes {
  Shape x, weight;
  operators::Conv2dOptions options;
};

/// Calls check() by each of these tiles, with 1 to 8 blocks that share a sum.
template <class Check>
void by_every_plan(std::initializer_list<const char*> tiles, const Check& check) {
  for (const char* const tile : tiles)
    for (const char* const split : {"1", "2", "4", "8"}) {
      const ForcedAlgorithm of_tile("implicit_tile", tile), of_split("implicit_split", split);
      INFO(tile << ", " << split << " blocks");
      check();
    }
}

/// How far a result of these sums, rounded once to `dtype`, may be from the exact one.
inline double allowed_distance(const Tensor& sums, DType dtype) {
  double largest = 0;
  for (const double value : sums.values()) largest = std::max(largest, std::abs(value));
  return largest * (dtype == DType::bfloat16 ? 0x1p-7 : 0x1p-9);
}

/// The largest difference of an element.
inline double distance(const Tensor& found, const std::vector<double>& wanted) {
  const std::vector<double> values = found.values();
  double most = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) most = std::max(most, std::abs(values[i] - wanted[i]));
  return most;
}

}  // namespace tern::testing
