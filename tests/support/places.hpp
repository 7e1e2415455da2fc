#pragma once
// The paths of this build. Only places.cpp is compiled for one folder: a compiler cache serves the other tests in any
// checkout.

#include <string>
#include <string_view>

namespace tern::testing {

/// A file or folder of the source tree: "docs/operators.md".
std::string source_path(std::string_view path);

/// A file or folder of the shared data, which may be beside the source tree: "mnist".
std::string shared_data(std::string_view path);

}  // namespace tern::testing
