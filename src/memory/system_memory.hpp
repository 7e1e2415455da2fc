#pragma once

#include <cstdint>
#include <filesystem>

namespace tern {

/// Bytes that the process may still take: what the system has to give, and what its control groups leave of theirs.
/// What is not known counts as without a limit. The files are /proc/meminfo, /proc/self/cgroup and /sys/fs/cgroup.
std::uint64_t available_memory(const std::filesystem::path& system, const std::filesystem::path& process,
                               const std::filesystem::path& groups);

}  // namespace tern
