#pragma once

#include <map>
#include <string>

#include "tern/parallel/split.hpp"

namespace tern::parallel {

/// Of what a rank has a part.
struct SplitPart {
  Group group;
  Layout layout;
};

/// The parameters and buffers of a module that are parts, by all their names.
std::map<std::string, SplitPart> split_parts(const nn::Module& module);

}  // namespace tern::parallel
