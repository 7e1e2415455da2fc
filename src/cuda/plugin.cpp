// The entry point of the plug-in. Compiled by the library's compiler, which writes the names in the contract in the
// same form.

#include "tern/modes/plugin.hpp"

#include <exception>

#include "cuda/cuda.hpp"

extern "C" const tern::Plugin* tern_plugin();
const tern::Plugin* tern_plugin() {
  static tern::Plugin plugin;
  static const std::string reason = [] {
    try {
      std::string sentence = tern::cuda::why_not();
      if (sentence.empty()) plugin.mode = &tern::cuda::mode();
      return sentence;
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
  }();
  plugin.status = plugin.mode == nullptr ? reason.c_str() : nullptr;
  return &plugin;
}
