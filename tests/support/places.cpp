#include "support/places.hpp"

namespace tern::testing {

std::string source_path(std::string_view path) { return TERN_SOURCE_TREE "/" + std::string(path); }

std::string shared_data(std::string_view path) { return source_path("../shared/data/") + std::string(path); }

}  // namespace tern::testing
