#pragma once

#include "tern/modes/mode.hpp"

namespace tern::testing {

/// The mode "card": the sequential mode's kernels on the streams of the cards of stub/cuda_runtime.h. add, copy and
/// fill are queued, and can be recorded; the caller of any other one waits until the stream has run it.
const Mode& card_mode();

}  // namespace tern::testing
