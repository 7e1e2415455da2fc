// What tern_single.hpp and a library for TERN_OPERATORS have in place of the plug-ins and the debug device: one sentence
// each.

#include "modes/registry.hpp"
#include "tern/core/error.hpp"

namespace tern {

namespace {
constexpr const char* leaves_out = "tern_single.hpp and a library built with TERN_OPERATORS ";
}

const Mode* open_plugin(const std::string& file, std::string& reason) {
  reason = message(file, ": ", leaves_out, "open no plug-ins; link with the whole library");
  return nullptr;
}
std::string find_plugin(const std::string&) { return {}; }
std::string plugin_places() { return message(leaves_out, "open no plug-ins"); }

namespace debug {

Mode mode(const std::string& name, const Mode&) {
  throw DeviceUnavailable(
      message("mode \"", name, "\": ", leaves_out, "have no debug device; link with the whole library"));
}

}  // namespace debug

}  // namespace tern
