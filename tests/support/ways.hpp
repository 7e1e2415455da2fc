#pragma once
// The ways by which a mode computes, asked of the mode itself.

#include <memory>
#include <string_view>
#include <vector>

#include "tern/modes/device.hpp"
#include "tern/modes/forced_way.hpp"

namespace tern::testing {

/// Of the decision, those that this machine has.
inline std::vector<const char*> ways_of(const Mode& mode, std::string_view name) {
  std::vector<const char*> ways;
  for (const Decision& decision : mode.decisions)
    for (const char* way : decision.ways)
      if (decision.name == name && way != nullptr) ways.push_back(way);
  return ways;
}

/// A way of vectorized that multiplies factors in bfloat16, for Precision::bf16 alone.
inline bool rounds(std::string_view way) { return way == "avx512_bf16" || way == "amx"; }

/// Forces the way that asks for this decision, where one does: tiles are chosen within a way of products. Slices are
/// tried with factors of TF32, where they may be rounded, because the mode takes doubles for the small ones.
inline std::vector<std::unique_ptr<ForcedWay>> force_around(std::string_view decision) {
  std::vector<std::unique_ptr<ForcedWay>> forced;
  const bool shapes = decision.ends_with("_slices"), slices = shapes || decision == "slice_factors";
  if (slices || decision.starts_with("product_"))
    for (const char* of : {"matmul", "linear", "linear_backward"})
      forced.push_back(std::make_unique<ForcedWay>(of, slices ? "sliced" : "own"));
  if (shapes) forced.push_back(std::make_unique<ForcedWay>("slice_factors", "tf32"));
  return forced;
}

}  // namespace tern::testing
