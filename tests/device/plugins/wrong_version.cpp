// Built when plug-ins had another form.
#include "tern/modes/plugin.hpp"

extern "C" const tern::Plugin* tern_plugin();
const tern::Plugin* tern_plugin() {
  static const tern::Plugin plugin{.form = tern::plugin_form + 41};
  return &plugin;
}
