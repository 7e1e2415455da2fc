#pragma once
// The entry point of a mode that lives in a shared library of its own. The library need not link tern: it fills a
// Mode and hands it out. It is built with the same compiler family, standard library and version of these headers: then
// it shares strings, exceptions and virtual calls with the library. The contract, a number that both sides derive from
// the headers, is compared when it is opened.

#include "tern/modes/contract.hpp"

namespace tern {

/// The form of Plugin itself.
inline constexpr std::uint32_t plugin_form = 100;

/// The contract that this translation unit was compiled with; contract.hpp derives it from the headers.
inline constexpr std::uint64_t plugin_contract = contract::number();

/// The compiler, for messages.
inline constexpr const char* plugin_compiler = __VERSION__;

/// What the entry point returns; it lives until the process ends. The library reads no further than what it knows:
/// first the form, then the contract, and only where both are its own the rest.
struct Plugin {
  std::uint32_t form = plugin_form;
  std::uint32_t mode_size = sizeof(Mode);
  std::uint64_t contract = plugin_contract;
  const char* compiler = plugin_compiler;
  const Mode* mode = nullptr;    ///< null when the mode cannot be used here
  const char* status = nullptr;  ///< then: one sentence that says why
};

/// `extern "C" const tern::Plugin* tern_plugin()` is what the library exports.
using PluginEntry = const Plugin* (*)();
inline constexpr const char* plugin_entry_name = "tern_plugin";

}  // namespace tern
