#pragma once

#include <string>

#include "options.hpp"

namespace tern::tool {

/// `tern --help`.
std::string program_help();
/// What an option does, with its possible values and the default.
std::string option_help(const Option& option);
/// `tern VERB --help`: the usage, the most used options and an example, on one screen; with `all`, all options.
std::string verb_help(const Verb& verb, bool all);

}  // namespace tern::tool
