#pragma once

#include "tern/modes/mode.hpp"

namespace tern::debug {

/// Replaces every kernel of the tables by one that queues it on the debug device behind its stream.
void queue_kernels(Mode& mode);

}  // namespace tern::debug
