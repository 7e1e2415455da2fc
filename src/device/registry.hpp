#pragma once

#include "tern/device/mode.hpp"

namespace tern {

/// True for what mode(), register_mode() and load_mode() return, not for copies.
bool is_registered(const Mode& mode);

}  // namespace tern
