// Built from headers in which one member of a parameter struct had another name; sizes and types are the same.
#define pad_h pad_height
#include "tern/modes/plugin.hpp"
#undef pad_h

extern "C" const tern::Plugin* tern_plugin();
const tern::Plugin* tern_plugin() {
  static const tern::Plugin plugin{.status = "no abacus is connected"};
  return &plugin;
}
