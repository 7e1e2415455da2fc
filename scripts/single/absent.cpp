// What tern_single.hpp has in place of the plug-ins and the debug device: one sentence each.

#include "modes/registry.hpp"
#include "tern/core/error.hpp"

namespace tern {

const Mode* open_plugin(const std::string& file, std::string& reason) {
  reason = message(file, ": tern_single.hpp opens no plug-ins; link with the library");
  return nullptr;
}
std::string find_plugin(const std::string&) { return {}; }
std::string plugin_places() { return "tern_single.hpp opens no plug-ins"; }

namespace debug {

Mode mode(const std::string& name, const Mode&) {
  throw DeviceUnavailable(message("mode \"", name, "\": tern_single.hpp has no debug device; link with the library"));
}

}  // namespace debug

}  // namespace tern
