#pragma once

#include <string>

#include "options.hpp"

namespace tern::tool {

/// `tern --help`.
std::string program_help();
/// What an option does, with the values that there are and the default.
std::string option_help(const Option& option);
/// `tern VERB --help`: the usage, the options that are used most and an example, on one screen; with `all`, all of
/// them.
std::string verb_help(const Verb& verb, bool all);

}  // namespace tern::tool
