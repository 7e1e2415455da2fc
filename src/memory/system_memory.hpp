#pragma once

#include <cstdint>
#include <filesystem>

namespace tern {

/// Bytes that the process may still allocate: the minimum of the system's free memory and what is left in its control
/// groups. Unknown values do not limit. The files are /proc/meminfo, /proc/self/cgroup and /sys/fs/cgroup.
std::uint64_t available_memory(const std::filesystem::path& system, const std::filesystem::path& process,
                               const std::filesystem::path& groups);

}  // namespace tern
