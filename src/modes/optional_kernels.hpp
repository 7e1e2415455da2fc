#pragma once
// Kernels that a mode may have beside its table: operators are composed of others where it has none.

#include <optional>
#include <string>

#include "kernels/recurrent.hpp"
#include "kernels/resampling.hpp"

namespace tern {

struct Mode;

struct OptionalKernels {
  std::optional<kernels::Recurrent> recurrent = {};
  std::optional<kernels::Resampling> resampling = {};
};

/// Once per mode, before it runs anything.
void set_optional_kernels(const std::string& mode, const OptionalKernels& kernels);
/// By the mode's name: a copy under another name, whose slots may differ, has none. Lives with the program.
const OptionalKernels& optional_kernels(const Mode& mode);

}  // namespace tern
