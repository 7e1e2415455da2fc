#pragma once

#include "tern/modes/device.hpp"

namespace tern {

/// The observer that checks the operators of a scope; lives as long as the process. Null if nothing is checked. Defined
/// on the floor `run`, because the checks need tensors.
Observer* scope_observer(Numerics numerics, bool verify);

}  // namespace tern
