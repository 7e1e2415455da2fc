#pragma once
// The ways by which a mode computes, asked of the mode itself.

#include <string_view>
#include <vector>

#include "tern/modes/device.hpp"

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

}  // namespace tern::testing
