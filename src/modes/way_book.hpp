#pragma once
// Who is told of the ways that kernels take, and who forces them. See tern/kernels/ways.hpp.

#include "tern/modes/mode.hpp"

namespace tern {

/// What every scope hands to its kernels.
const Ways& ways();
/// One more or one fewer who wants to hear of ways.
void watch_ways(int change) noexcept;
/// Throws Error when TERN_WAY names what `mode` does not know.
void check_environment_ways(const Mode& mode);

}  // namespace tern
