#pragma once
// Where things are for this build. places.cpp alone is compiled for one folder: what a compiler's cache holds of the
// other tests serves in any checkout.

#include <string>
#include <string_view>

namespace tern::testing {

/// A file or folder of the source tree: "docs/operators.md".
std::string source_path(std::string_view path);

/// A file or folder of the shared data, which may lie beside the source tree: "mnist".
std::string shared_data(std::string_view path);

}  // namespace tern::testing
