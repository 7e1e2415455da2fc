#pragma once

#include "tern/device/memory.hpp"

namespace tern::testing {

/// What every Memory promises (tern/device/memory.hpp), as checks of the running test.
void check_memory(Memory& memory);

}  // namespace tern::testing
