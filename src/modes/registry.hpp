#pragma once

#include <string>
#include <vector>

#include "tern/modes/mode.hpp"

namespace tern {

/// True for what mode(), register_mode() and load_mode() return, not for copies.
bool is_registered(const Mode& mode);

/// "cuda" for "cuda" and for "cuda:1".
std::string_view name_without_index(const Mode& mode);

/// The modes that are part of the library and can be used, the likely fastest last: what a Device{"auto"} tries.
std::vector<const Mode*> usual_modes();

/// The fastest of the modes that are part of the library: where operators run outside every Device.
const Mode& fastest_built_in();

/// The file of a plug-in, such as "libtern_cuda.so": beside the library or the program, in the usual places of an
/// installation, or where TERN_PLUGIN_PATH says. Empty when there is none.
std::string find_plugin(const std::string& name);
/// Where it was looked for, for messages.
std::string plugin_places();

}  // namespace tern
