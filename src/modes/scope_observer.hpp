#pragma once

#include "tern/modes/device.hpp"

namespace tern {

/// Who checks the operators of a scope; lives as long as the process. Null where nobody does. Defined on the floor
/// `run`: the checks need tensors.
Observer* scope_observer(Numerics numerics, bool verify);

}  // namespace tern
