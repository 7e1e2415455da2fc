#pragma once

#include <string>

#include "tern/modes/mode.hpp"

namespace tern::debug {

/// A debug device that runs the kernels of a mode on host memory. `kernels` must live as long as the process.
Mode mode(const std::string& name, const Mode& kernels);

}  // namespace tern::debug
