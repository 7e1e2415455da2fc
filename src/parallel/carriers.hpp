#pragma once
// Carriers in shared libraries of their own.

#include <memory>
#include <string>

#include "tern/parallel/plugin.hpp"

namespace tern::parallel {

/// The plug-in of a carrier, "mpi" or "nccl"; null, and the reason, when it cannot be used. It stays open.
const CarrierPlugin* find_carrier(const std::string& name, std::string& reason);

/// The name of this machine.
std::string machine_name();

}  // namespace tern::parallel
