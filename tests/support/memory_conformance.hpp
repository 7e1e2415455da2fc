#pragma once

#include "tern/memory/memory.hpp"

namespace tern::testing {

/// What every Memory promises (tern/memory/memory.hpp), as checks of the running test.
void check_memory(Memory& memory);

}  // namespace tern::testing
