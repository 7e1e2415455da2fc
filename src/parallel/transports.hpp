#pragma once
// Transports in separate shared libraries.

#include <memory>
#include <string>

#include "tern/parallel/plugin.hpp"

namespace tern::parallel {

/// The plug-in of a transport, "mpi" or "nccl"; null with the reason if it cannot be used. It stays open.
const TransportPlugin* find_transport(const std::string& name, std::string& reason);

/// The name of this machine.
std::string machine_name();

}  // namespace tern::parallel
