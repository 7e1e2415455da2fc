#pragma once

#include "tern/modes/mode.hpp"

namespace tern {

/// True for what mode(), register_mode() and load_mode() return, not for copies.
bool is_registered(const Mode& mode);

/// "cuda" for "cuda" and for "cuda:1".
std::string_view name_without_index(const Mode& mode);

/// The fastest of the modes that are part of the library: where operators run outside every Device.
const Mode& fastest_built_in();

}  // namespace tern
