// Modes in shared libraries: where they are, and how they are opened. A plug-in is compared with this library's
// contract before anything of it is used.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "modes/registry.hpp"
#include "tern/core/error.hpp"
#include "tern/kernels/weight_version.hpp"
#include "tern/modes/plugin.hpp"

namespace tern {

namespace {

std::string in_hex(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::filesystem::path folder_of_this_code() {
  Dl_info info{};
  std::error_code error;
  if (dladdr(reinterpret_cast<void*>(&in_hex), &info) == 0 || info.dli_fname == nullptr) return {};
  std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  // In a static program the name may be the command as typed.
  if (error) file = std::filesystem::read_symlink("/proc/self/exe", error);
  return file.parent_path();
}

}  // namespace

const Mode* open_plugin(const std::string& file, std::string& reason) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    reason = message("a library could not be loaded: ", error ? error : "unknown reason");
    return nullptr;
  }
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, plugin_entry_name));
  if (entry == nullptr) {
    reason = message(file, " is not a plug-in: it does not export ", plugin_entry_name);
    return nullptr;
  }
  const Plugin* plugin = entry();
  if (plugin == nullptr) {
    reason = message(file, " returned nothing from ", plugin_entry_name);
    return nullptr;
  }
  const auto ours = [] { return message("contract ", in_hex(plugin_contract), " (", plugin_compiler, ")"); };
  if (plugin->form != plugin_form) {
    reason = message(file, " has plug-ins of form ", plugin->form, ", this library those of form ", plugin_form,
                     " with ", ours(), ": build both from one source");
    return nullptr;
  }
  if (plugin->contract != plugin_contract || plugin->mode_size != sizeof(Mode)) {
    reason = message(file, " was built for contract ", in_hex(plugin->contract), " (", plugin->compiler,
                     "), this library for ", ours(), ": build both from one source with one compiler");
    return nullptr;
  }
  if (plugin->mode != nullptr && plugin->set_host != nullptr) plugin->set_host({.weights_last = kernels::weights_last});
  if (plugin->mode == nullptr) reason = plugin->status ? plugin->status : "the plug-in gives no reason";
  return plugin->mode;
}

std::string find_plugin(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (const char* path = std::getenv("TERN_PLUGIN_PATH")) {
    const fs::path file = fs::path(path) / name;
    return fs::exists(file, error) ? file.string() : std::string{};
  }
  const fs::path here = folder_of_this_code();
  for (const fs::path& folder :
       {here, here / "tern", here / "..", here / "../..", here / "../lib/tern", fs::path(TERN_PLUGIN_DIR)})
    if (fs::exists(folder / name, error)) return (folder / name).string();
  return {};
}

std::string plugin_places() {
  return "looked beside the library, beside the program and in " TERN_PLUGIN_DIR
         "; TERN_PLUGIN_PATH names another folder";
}

}  // namespace tern
