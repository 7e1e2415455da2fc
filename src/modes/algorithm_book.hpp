#pragma once
// Who observes the algorithms that kernels take, and who forces them. See tern/kernels/algorithms.hpp.

#include "tern/modes/mode.hpp"

namespace tern {

/// Every scope passes this to its kernels.
const Algorithms& algorithms();
/// Adds or removes an observer of algorithms.
void watch_algorithms(int change) noexcept;
/// Throws Error if TERN_ALGORITHM names something that `mode` does not know.
void check_environment_algorithms(const Mode& mode);

}  // namespace tern
