#pragma once

#include "blueprint.hpp"
#include "options.hpp"

namespace tern::tool {

Json to_json(const Blueprint& blueprint);
/// Throws FileError that begins with `file` for anything that no Blueprint can hold.
Blueprint blueprint_from(const Json& json, const std::string& file);

}  // namespace tern::tool
