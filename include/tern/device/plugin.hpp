#pragma once
// The entry point of a mode that lives in a shared library of its own. The library need not link tern: it fills a
// Mode and hands it out. It is built with the same compiler family and the same version of these headers.

#include "tern/device/mode.hpp"

namespace tern {

/// Grows whenever Mode, a kernel slot or a parameter struct changes.
inline constexpr std::uint32_t plugin_abi_version = 5;

/// What the entry point returns; it lives until the process ends.
struct Plugin {
  std::uint32_t abi_version = plugin_abi_version;
  std::uint32_t mode_size = sizeof(Mode);
  const Mode* mode = nullptr;    ///< null when the mode cannot be used here
  const char* status = nullptr;  ///< then: one sentence that says why
};

/// `extern "C" const tern::Plugin* tern_plugin()` is what the library exports.
using PluginEntry = const Plugin* (*)();
inline constexpr const char* plugin_entry_name = "tern_plugin";

}  // namespace tern
