#pragma once

#include <filesystem>

namespace tern {

/// The threads of a Device that names none: OMP_NUM_THREADS if that is set, else the cores that this process may run
/// on, but no more than its control group's share of time amounts to. Decided once.
int default_threads();

/// The cores' worth of time that the control groups of a process grant, rounded up; 0 if they set no limit. `process`
/// is /proc/self/cgroup and `groups` /sys/fs/cgroup; both versions of control groups are read.
int granted_cores(const std::filesystem::path& process, const std::filesystem::path& groups);

}  // namespace tern
