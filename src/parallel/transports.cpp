#include "parallel/transports.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "modes/registry.hpp"
#include "tern/core/error.hpp"
#include "tern/parallel/group.hpp"

namespace tern::parallel {

namespace {

const TransportPlugin* open_transport(const std::string& name, std::string& reason) {
  const std::string library = "libtern_" + name + ".so", file = find_plugin(library);
  if (file.empty()) {
    reason = message("its plug-in ", library, " was not found (", plugin_places(), "); it is built where ",
                     name == "mpi" ? "MPI is: apt install libopenmpi-dev openmpi-bin"
                                   : "nvcc and nccl.h are: libnccl-dev of NVIDIA's repository");
    return nullptr;
  }
  void* const opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* error = dlerror();
    reason = message("a library could not be loaded: ", error ? error : "unknown reason");
    return nullptr;
  }
  const auto entry = reinterpret_cast<TransportEntry>(dlsym(opened, transport_entry_name));
  const TransportPlugin* plugin = entry != nullptr ? entry() : nullptr;
  if (plugin == nullptr || plugin->form != transport_form || plugin->contract != transport_contract) {
    reason = message(file, " does not fit this library: build both from one source with one compiler");
    return nullptr;
  }
  return plugin;
}

}  // namespace

const TransportPlugin* find_transport(const std::string& name, std::string& reason) {
  struct Known {
    const TransportPlugin* plugin = nullptr;
    std::string reason = {};
  };
  static std::mutex mutex;
  static std::map<std::string, Known> known;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = known.try_emplace(name);
  if (is_new) entry->second.plugin = open_transport(name, entry->second.reason);
  reason = entry->second.reason;
  return entry->second.plugin;
}

Group on_devices(const Group& host) {
  if (host.size() == 1 || !host.on_host()) return host;
  Memory& memory = *current_scope().mode->memory;
  std::string reason, device;
  const TransportPlugin* const plugin = memory.host_accessible() ? nullptr : find_transport("nccl", reason);
  if (plugin != nullptr) device = plugin->suits(memory);
  // All see the same list, so all decide alike.
  std::vector<std::string> devices = host.all_gather(device.empty() ? device : machine_name() + ' ' + device);
  std::ranges::sort(devices);
  if (devices[0].empty() || std::ranges::adjacent_find(devices) != devices.end()) return host;
  const std::shared_ptr<Collective> transport =
      plugin->open({.over = &host.collective(), .memory = &memory, .algorithms = current_scope().context.algorithms});
  host.collective().opened(transport);
  return Group(transport);
}

std::vector<TransportStatus> transports() {
  std::vector<TransportStatus> all{{"threads", true, "threads of one process"}};
  for (const auto& [name, words] : {std::pair{"mpi", "processes, through the host's memory"},
                                    std::pair{"nccl", "GPUs, in the order of their streams"}}) {
    std::string reason;
    const bool available = find_transport(name, reason) != nullptr;
    all.push_back({name, available, available ? words : reason});
  }
  return all;
}

}  // namespace tern::parallel
