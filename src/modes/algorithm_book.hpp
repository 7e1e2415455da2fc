#pragma once
// Who is told of the algorithms that kernels take, and who forces them. See tern/kernels/algorithms.hpp.

#include "tern/modes/mode.hpp"

namespace tern {

/// What every scope hands to its kernels.
const Algorithms& algorithms();
/// One more or one fewer who wants to hear of algorithms.
void watch_algorithms(int change) noexcept;
/// Throws Error when TERN_ALGORITHM names what `mode` does not know.
void check_environment_algorithms(const Mode& mode);

}  // namespace tern
