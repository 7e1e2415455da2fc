// Built for another version of the headers.
#include "tern/device/plugin.hpp"

extern "C" const tern::Plugin* tern_plugin();
const tern::Plugin* tern_plugin() {
  static const tern::Plugin plugin{.abi_version = tern::plugin_abi_version + 41};
  return &plugin;
}
