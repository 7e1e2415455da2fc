#pragma once
// The entry point of a mode in another shared library. That library need not link tern: it fills a Mode and returns it.
// Both must use the same compiler family, standard library and header version, because they share strings, exceptions
// and virtual calls. Both sides derive a number, the contract, from the headers; the library compares it when it opens
// the plug-in.

#include "tern/modes/contract.hpp"

namespace tern {

/// The form of Plugin itself.
inline constexpr std::uint32_t plugin_form = 101;

/// The contract that this translation unit was compiled with; contract.hpp derives it from the headers.
inline constexpr std::uint64_t plugin_contract = contract::number();

/// The compiler, for messages.
inline constexpr const char* plugin_compiler = __VERSION__;

/// What a kernel of a plug-in may ask of the library that opened it, whose thread's state it does not see.
struct HostFunctions {
  bool (*weights_last)() = nullptr;  ///< kernels::weights_last
};

/// What the entry point returns; it lives until the process ends. The library first compares the form, then the
/// contract, and reads the rest only if both match its own.
struct Plugin {
  std::uint32_t form = plugin_form;
  std::uint32_t mode_size = sizeof(Mode);
  std::uint64_t contract = plugin_contract;
  const char* compiler = plugin_compiler;
  const Mode* mode = nullptr;                        ///< null when the mode cannot be used here
  const char* status = nullptr;                      ///< then one sentence that says why
  void (*set_host)(const HostFunctions&) = nullptr;  ///< called once, before a kernel runs; null: it asks nothing
};

/// `extern "C" const tern::Plugin* tern_plugin()` is what the library exports.
using PluginEntry = const Plugin* (*)();
inline constexpr const char* plugin_entry_name = "tern_plugin";

}  // namespace tern
