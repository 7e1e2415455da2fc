#include "tern/core/version.hpp"

namespace tern {
const char* version() { return TERN_VERSION_STRING; }
}  // namespace tern
