#pragma once

#include <string>
#include <vector>

#include "tern/modes/mode.hpp"

namespace tern {

/// True for the results of mode(), register_mode() and load_mode(), not for copies.
bool is_registered(const Mode& mode);

/// "cuda" for "cuda" and for "cuda:1".
std::string_view name_without_index(const Mode& mode);

/// The usable built-in modes, the probably fastest last: those that a Device{"auto"} tries.
std::vector<const Mode*> usual_modes();

/// The fastest built-in mode, where operators run outside every Device.
const Mode& fastest_built_in();

/// Opens a plug-in. Null with the reason if it provides no mode. The library stays open for the life of the process.
const Mode* open_plugin(const std::string& file, std::string& reason);
/// The file of a plug-in, such as "libtern_cuda.so": beside the library or the program, in the usual places of an
/// installation, or in TERN_PLUGIN_PATH. Empty if there is none.
std::string find_plugin(const std::string& name);
/// The places that were searched, for messages.
std::string plugin_places();

}  // namespace tern
