#pragma once
// The algorithms of a mode, as the mode itself reports them.

#include <memory>
#include <string_view>
#include <vector>

#include "tern/modes/device.hpp"
#include "tern/modes/forced_algorithm.hpp"

namespace tern::testing {

/// The algorithms of a decision that this machine has.
inline std::vector<const char*> algorithms_of(const Mode& mode, std::string_view name) {
  std::vector<const char*> algorithms;
  for (const Decision& decision : mode.decisions)
    for (const char* algorithm : decision.algorithms)
      if (decision.name == name && algorithm != nullptr) algorithms.push_back(algorithm);
  return algorithms;
}

/// An algorithm of vectorized that multiplies factors in bfloat16, only for Precision::bf16.
inline bool rounds(std::string_view algorithm) { return algorithm == "avx512_bf16" || algorithm == "amx"; }

/// Forces the algorithm that reaches this decision, if there is one: tiles are chosen within an algorithm of products.
/// Slices are tried with factors of TF32, where they may be rounded, because the mode takes doubles for the small ones.
inline std::vector<std::unique_ptr<ForcedAlgorithm>> force_around(std::string_view decision) {
  std::vector<std::unique_ptr<ForcedAlgorithm>> forced;
  const bool shapes = decision.ends_with("_slices"), slices = shapes || decision == "slice_factors";
  if (slices || decision.starts_with("product_"))
    for (const char* of : {"matmul", "linear", "linear_backward"})
      forced.push_back(std::make_unique<ForcedAlgorithm>(of, slices ? "sliced" : "own"));
  if (shapes) forced.push_back(std::make_unique<ForcedAlgorithm>("slice_factors", "tf32"));
  return forced;
}

}  // namespace tern::testing
