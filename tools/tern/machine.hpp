#pragma once

#include <string>

#include "options.hpp"

namespace tern::tool {

/// The processor's name, as reported by the system.
std::string processor();
/// Version, system, processor, threads, modes and libraries: what a bug report needs.
Json describe_machine();

}  // namespace tern::tool
