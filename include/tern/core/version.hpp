#pragma once

#define TERN_VERSION_MAJOR 0
#define TERN_VERSION_MINOR 1
#define TERN_VERSION_PATCH 0
#define TERN_VERSION_STRING "0.1.0"

namespace tern {
/// The version of the linked library. The macros give the version of the headers.
const char* version();
}  // namespace tern
