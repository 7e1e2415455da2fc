// What the library opens. Compiled by the compiler of the library, which writes the names in the contract as it does.

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
