#pragma once

#include "tern/modes/observer.hpp"

namespace tern {

/// Compares every operator with the reference; see DeviceOptions::verify.
Observer& verifier();
/// Looks for results that are not finite; see Numerics::check.
Observer& finite_check();

}  // namespace tern
