#pragma once

#include "tern/modes/mode.hpp"

namespace tern::debug {

/// Replaces every kernel of the tables by one that queues it on the debug device, on its stream.
void queue_kernels(Mode& mode);

}  // namespace tern::debug
