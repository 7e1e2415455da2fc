// A plug-in that cannot be used here.
#include "tern/modes/plugin.hpp"

extern "C" const tern::Plugin* tern_plugin();
const tern::Plugin* tern_plugin() {
  static const tern::Plugin plugin{.status = "no abacus is connected"};
  return &plugin;
}
